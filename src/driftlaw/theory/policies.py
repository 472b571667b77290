"""Policies whose responses can be enumerated, with exact log-probabilities and token scores.

A response is L tokens of a vocabulary of V; there are Y = V^L. The prefixes of a prompt form a tree:
node p stands for y_<t, and an *edge* e = p V + y_t for the choice of a token there. There are

    P = (V^L - 1) / (V - 1) nodes,   E = P V edges.

Everything that is linear in token scores lives in edge space: with coefficients c_e on the edges of
prompt x, sum_e c_e grad log pi(e | x) = J_x' c, where J_x (E x d) holds the scores.

tabular   theta = logits per prompt and node: d = X P V
network   theta = one hidden tanh layer, shared by the prompts; input: prompt, position and previous
          tokens, each one-hot
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Tree:
    """All responses of V tokens and length L, in lexicographic order."""

    vocabulary: int
    length: int

    @property
    def nodes(self) -> int:
        return (self.vocabulary**self.length - 1) // (self.vocabulary - 1)

    @property
    def edges(self) -> int:
        return self.nodes * self.vocabulary

    @cached_property
    def token_yl(self) -> Ints:
        """Y x L tokens."""
        shape = (self.vocabulary,) * self.length
        return np.stack(np.unravel_index(np.arange(self.vocabulary**self.length), shape), axis=1)

    @cached_property
    def edge_yl(self) -> Ints:
        """Y x L: the edge that each token of a response takes."""
        out = np.empty_like(self.token_yl)
        node = np.zeros(len(out), dtype=np.int64)
        for t in range(self.length):
            # Nodes of depth t are numbered after all shallower ones; `node` counts within the depth.
            first = (self.vocabulary**t - 1) // (self.vocabulary - 1)
            out[:, t] = (first + node) * self.vocabulary + self.token_yl[:, t]
            node = node * self.vocabulary + self.token_yl[:, t]
        return out

    @cached_property
    def prefix_pl(self) -> Ints:
        """P x L tokens of each node's prefix, -1 where there is none yet."""
        out = np.full((self.nodes, self.length), -1, dtype=np.int64)
        for t in range(1, self.length):
            node = self.edge_yl[:, t] // self.vocabulary
            out[node, :t] = self.token_yl[:, :t]
        return out


class Policy:
    """Log-probabilities of edges from a flat parameter vector theta (d), float64."""

    tree: Tree
    prompts: int
    size: int

    def initial(self, generator: np.random.Generator, scale: float) -> torch.Tensor:
        """A random theta whose logits have a standard deviation of about `scale`."""
        raise NotImplementedError

    def logits(self, theta: torch.Tensor) -> torch.Tensor:
        """X x P x V."""
        raise NotImplementedError

    def edge_logp(self, theta: torch.Tensor) -> torch.Tensor:
        """X x E log pi of each edge given its node."""
        return self.logits(theta).log_softmax(dim=2).reshape(self.prompts, -1)

    def token_logp(self, theta: torch.Tensor) -> torch.Tensor:
        """X x Y x L log pi(y_t | x, y_<t) of every response."""
        return self.edge_logp(theta)[:, torch.as_tensor(self.tree.edge_yl)]

    def scores(self, theta: torch.Tensor) -> Floats:
        """X x E x d: J_x, the gradient of log pi of each edge."""
        jacobian: torch.Tensor = torch.func.jacrev(self.edge_logp)(theta)
        return jacobian.detach().numpy()


class TabularPolicy(Policy):
    """Free logits per prompt and node."""

    def __init__(self, tree: Tree, prompts: int) -> None:
        self.tree, self.prompts = tree, prompts
        self.size = prompts * tree.edges

    def initial(self, generator: np.random.Generator, scale: float) -> torch.Tensor:
        return torch.as_tensor(scale * generator.standard_normal(self.size))

    def logits(self, theta: torch.Tensor) -> torch.Tensor:
        return theta.view(self.prompts, self.tree.nodes, self.tree.vocabulary)


class NetworkPolicy(Policy):
    """logits = W tanh(U [prompt, position, previous tokens]) + b, `hidden` units."""

    def __init__(self, tree: Tree, prompts: int, hidden: int) -> None:
        self.tree, self.prompts, self.hidden = tree, prompts, hidden
        prefix = tree.prefix_pl
        position = (prefix >= 0).sum(1)
        columns = [np.eye(tree.length)[position]]
        # Token -1, where there is none yet, picks the last row: zeros.
        one_hot = np.vstack([np.eye(tree.vocabulary), np.zeros(tree.vocabulary)])
        columns += [one_hot[prefix[:, t]] for t in range(tree.length)]
        node_pf = np.hstack(columns)
        prompt_xpf = np.repeat(np.eye(prompts)[:, None], tree.nodes, axis=1)
        self.input_xpf = torch.as_tensor(
            np.concatenate([prompt_xpf, np.repeat(node_pf[None], prompts, axis=0)], axis=2)
        )
        self.shapes = [
            (self.input_xpf.shape[2], hidden),
            (hidden, tree.vocabulary),
            (tree.vocabulary,),
        ]
        self.size = sum(int(np.prod(shape)) for shape in self.shapes)

    def initial(self, generator: np.random.Generator, scale: float) -> torch.Tensor:
        # About three inputs are on, so units of variance 1/3 each leave tanh in its linear range;
        # the last layer then sets the logits' deviation.
        deviations = (3**-0.5, scale * (2.5 / self.hidden) ** 0.5, 0.0)
        parts = [
            deviation * generator.standard_normal(shape)
            for deviation, shape in zip(deviations, self.shapes, strict=True)
        ]
        return torch.as_tensor(np.concatenate([part.ravel() for part in parts]))

    def logits(self, theta: torch.Tensor) -> torch.Tensor:
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        first, second, bias = (
            part.view(shape) for part, shape in zip(theta.split(sizes), self.shapes, strict=True)
        )
        return torch.tanh(self.input_xpf @ first) @ second + bias
