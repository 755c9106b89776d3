"""AdamW over the trained parameters, in mixed precision, and its state as tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hsfiq.model.recipes.recipe import Recipe

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_SCALE = "scaler"


def new_scaler(device: torch.device, *, enabled: bool) -> torch.amp.GradScaler:
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device.type, enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)


class Optimizer:
    """AdamW (Loshchilov and Hutter, arXiv 1711.05101) as the recipe sets it."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        recipe: Recipe,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._parameters = parameters
        self._clip_norm = recipe.clip_norm
        self._adamw = torch.optim.AdamW(
            parameters.values(),
            lr=recipe.lr,
            betas=recipe.betas,
            eps=recipe.eps,
            weight_decay=recipe.weight_decay,
        )
        # fp16 cannot represent the smallest gradients: the loss is scaled up, as in QuRe's code.
        self._scaler = new_scaler(device, enabled=dtype == torch.float16)

    def set_lr(self, lr: float) -> None:
        for group in self._adamw.param_groups:
            group["lr"] = lr

    def backward(self, loss: Tensor) -> None:
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def step(self) -> None:
        """Update the parameters; fp16 gradients that overflowed only lower the scale."""
        self._scaler.unscale_(self._adamw)
        if self._clip_norm is not None:
            nn.utils.clip_grad_norm_(list(self._parameters.values()), self._clip_norm)
        self._scaler.step(self._adamw)
        self._scaler.update()
        self._adamw.zero_grad()

    def tensors(self) -> dict[str, Tensor]:
        moments = {
            f"{key}.{name}": self._adamw.state[parameter][key]
            for name, parameter in self._parameters.items()
            if parameter in self._adamw.state
            for key in _MOMENTS
        }
        if not self._scaler.is_enabled():
            return moments
        state = self._scaler.state_dict()
        scale = torch.tensor([state["scale"], state["_growth_tracker"]], dtype=torch.float64)
        return {**moments, _SCALE: scale}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            if f"step.{name}" in tensors:
                # AdamW counts its steps on the CPU, whatever device the parameter is on.
                self._adamw.state[parameter] = {
                    key: tensors[f"{key}.{name}"].to("cpu" if key == "step" else parameter.device)
                    for key in _MOMENTS
                }
        if self._scaler.is_enabled() and _SCALE in tensors:
            scale, growth = tensors[_SCALE].tolist()
            state = self._scaler.state_dict()
            self._scaler.load_state_dict({**state, "scale": scale, "_growth_tracker": int(growth)})
