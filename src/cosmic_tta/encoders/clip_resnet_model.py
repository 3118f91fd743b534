"""CLIP with a modified ResNet, as a torch module whose names are those of the published weights.

A. Radford et al.: Learning transferable visual models from natural language supervision, ICML 2021, section 2.4.
The image tower is a ResNet-D with three convolutions as its stem, average pools in place of strides, and an attention
pool at its end. The text tower is a causal transformer. All sizes come from the shapes of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt

import torch
from torch import Tensor, nn
from torch.nn import functional

from cosmic_tta.core.errors import EncoderError

EXPANSION = 4  # width of a stage's output / width of its bottleneck
REDUCTION = 32  # pixels per cell of the last grid, along an edge
HEAD_WIDTH = 64
NOT_WEIGHTS = ("input_resolution", "context_length", "vocab_size")  # numbers in the published files


@dataclass(frozen=True)
class ClipResnetSizes:
    """The sizes of a CLIP with a ResNet."""

    dim: int
    layers: tuple[int, ...]  # blocks of the four stages
    width: int  # of the first stage's bottleneck
    resolution: int
    context: int
    vocabulary: int
    text_width: int
    text_layers: int

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> ClipResnetSizes:
        """Return the sizes of some weights; other models' weights are refused."""
        if "visual.proj" in weights or "visual.class_embedding" in weights:
            raise EncoderError(
                "these are the weights of a CLIP ViT; use the family hf, such as hf:openai/clip-vit-base-patch16."
            )
        try:
            grid = isqrt(weights["visual.attnpool.positional_embedding"].shape[0] - 1)
            sizes = cls(
                dim=weights["text_projection"].shape[1],
                layers=tuple(_blocks(weights, f"visual.layer{stage}.") for stage in (1, 2, 3, 4)),
                width=weights["visual.layer1.0.conv1.weight"].shape[0],
                resolution=grid * REDUCTION,
                context=weights["positional_embedding"].shape[0],
                vocabulary=weights["token_embedding.weight"].shape[0],
                text_width=weights["ln_final.weight"].shape[0],
                text_layers=_blocks(weights, "transformer.resblocks."),
            )
        except (KeyError, IndexError) as error:
            raise EncoderError(f"these are not the weights of a CLIP with a ResNet: {error} is missing.") from error
        if sizes.text_width % HEAD_WIDTH or sizes.width * REDUCTION % HEAD_WIDTH or not all(sizes.layers):
            raise EncoderError(
                f"these are not the weights of a CLIP with a ResNet: no heads of {HEAD_WIDTH} fit {sizes}."
            )
        return sizes


def _blocks(weights: Mapping[str, Tensor], prefix: str) -> int:
    return len({name[len(prefix) :].split(".")[0] for name in weights if name.startswith(prefix)})


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with a shortcut; an average pool replaces the stride."""

    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        outer = EXPANSION * width
        self.conv1, self.bn1 = nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer)
        self.pool = nn.AvgPool2d(stride) if stride > 1 else nn.Identity()
        self.downsample: nn.Module | None = None
        if stride > 1 or inner != outer:
            self.downsample = nn.Sequential(nn.Conv2d(inner, outer, 1, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: Tensor) -> Tensor:
        """Return [B, 4·width, rows/stride, columns/stride]."""
        shortcut = x if self.downsample is None else self.downsample(self.pool(x))
        x = functional.relu(self.bn1(self.conv1(x)))
        x = functional.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(self.pool(x)))
        return functional.relu(x + shortcut)


class AttentionPool(nn.Module):
    """One layer of attention with positions; the query is the mean of the grid."""

    def __init__(self, cells: int, width: int, dim: int) -> None:
        super().__init__()
        self.positional_embedding = nn.Parameter(torch.empty(cells + 1, width))
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        self.c_proj = nn.Linear(width, dim)
        self.heads = width // HEAD_WIDTH

    def forward(self, grid: Tensor) -> tuple[Tensor, Tensor]:
        """Return the feature [B, dim] and the values [B, rows, columns, width] that attention averages."""
        cells = grid.flatten(2).transpose(1, 2)  # [B, cells, width]
        cells = torch.cat((cells.mean(1, keepdim=True), cells), 1) + self.positional_embedding
        value = self.v_proj(cells)
        query, key, values = (
            x.unflatten(-1, (self.heads, HEAD_WIDTH)).transpose(1, 2)
            for x in (self.q_proj(cells[:, :1]), self.k_proj(cells), value)
        )
        pooled = functional.scaled_dot_product_attention(query, key, values)  # [B, heads, 1, HEAD_WIDTH]
        return self.c_proj(pooled.flatten(1)), value[:, 1:].unflatten(1, grid.shape[2:])


class VisualTower(nn.Module):
    """The image tower."""

    def __init__(self, sizes: ClipResnetSizes) -> None:
        super().__init__()
        width = sizes.width
        self.conv1, self.bn1 = nn.Conv2d(3, width // 2, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width // 2)
        self.conv2, self.bn2 = nn.Conv2d(width // 2, width // 2, 3, padding=1, bias=False), nn.BatchNorm2d(width // 2)
        self.conv3, self.bn3 = nn.Conv2d(width // 2, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        inner = width
        for stage, blocks in enumerate(sizes.layers):
            stage_width = width << stage
            layer = []
            for block in range(blocks):
                layer.append(Bottleneck(inner, stage_width, stride=2 if stage and not block else 1))
                inner = EXPANSION * stage_width
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layer))
        self.attnpool = AttentionPool((sizes.resolution // REDUCTION) ** 2, inner, sizes.dim)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return features [B, dim] of [B, 3, height, width], and the values of the last grid."""
        for conv, norm in ((self.conv1, self.bn1), (self.conv2, self.bn2), (self.conv3, self.bn3)):
            x = functional.relu(norm(conv(x)))
        x = functional.avg_pool2d(x, 2)
        for stage in (1, 2, 3, 4):
            x = self.get_submodule(f"layer{stage}")(x)
        pooled: tuple[Tensor, Tensor] = self.attnpool(x)
        return pooled


class MultiHeadAttention(nn.Module):
    """Causal self-attention with one matrix for query, key and value."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * width))
        self.out_proj = nn.Linear(width, width)
        self.heads = width // HEAD_WIDTH

    def forward(self, x: Tensor) -> Tensor:
        """Return [T, context, width]."""
        mixed = functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        query, key, value = (y.unflatten(-1, (self.heads, HEAD_WIDTH)).transpose(1, 2) for y in mixed.chunk(3, -1))
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out_proj(attended.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """Two linear maps with CLIP's fast approximation of GELU between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return [T, context, width]."""
        x = self.c_fc(x)
        return self.c_proj(x * torch.sigmoid(1.702 * x))


class TransformerBlock(nn.Module):
    """One layer of the text transformer, norms first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attn, self.mlp = MultiHeadAttention(width), Mlp(width)
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return [T, context, width]."""
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    """The layers of the text transformer."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.resblocks = nn.Sequential(*(TransformerBlock(width) for _ in range(layers)))

    def forward(self, x: Tensor) -> Tensor:
        """Return [T, context, width]."""
        return self.resblocks(x)


class ClipResnet(nn.Module):
    """Both towers, with the names of the published weights."""

    def __init__(self, sizes: ClipResnetSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.visual = VisualTower(sizes)
        self.transformer = Transformer(sizes.text_width, sizes.text_layers)
        self.token_embedding = nn.Embedding(sizes.vocabulary, sizes.text_width)
        self.positional_embedding = nn.Parameter(torch.empty(sizes.context, sizes.text_width))
        self.ln_final = nn.LayerNorm(sizes.text_width)
        self.text_projection = nn.Parameter(torch.empty(sizes.text_width, sizes.dim))
        self.logit_scale = nn.Parameter(torch.empty(()))

    def forward(self, ids: Tensor) -> Tensor:
        """Return the features [T, dim] of token numbers [T, context].

        The end token has the largest number, so the first maximum of a row is where its sentence ends.
        """
        x = self.ln_final(self.transformer(self.token_embedding(ids) + self.positional_embedding))
        ends = x[torch.arange(ids.shape[0], device=ids.device), ids.to(torch.int32).argmax(-1)]
        return ends @ self.text_projection

    @classmethod
    def from_weights(cls, weights: Mapping[str, Tensor]) -> ClipResnet:
        """Make the model of some weights, in float32; weights that do not fit are refused."""
        weights = {name: value.to(torch.float32) for name, value in weights.items() if name not in NOT_WEIGHTS}
        sizes = ClipResnetSizes.of(weights)
        with torch.device("meta"):
            model = cls(sizes)
        expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
        given = {name: tuple(value.shape) for name, value in weights.items()}
        # The batch counters of the norms are not used; some files leave them out.
        counters = {name for name in expected if name.endswith("num_batches_tracked")}
        wrong = sorted(
            name
            for name in expected.keys() | given.keys()
            if name not in counters and expected.get(name) != given.get(name)
        )
        if wrong:
            first = f"{wrong[0]!r} is {given.get(wrong[0], 'missing')}, expected {expected.get(wrong[0], 'none')}"
            raise EncoderError(
                f"these weights are not those of a CLIP with a ResNet: {first}; {len(wrong)} differ in all."
            )
        zero = dict.fromkeys(counters, torch.zeros((), dtype=torch.int64))
        model.load_state_dict(weights | zero, assign=True)
        return model.eval()
