"""AdamW over the trained parameters, in mixed precision, and its state as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_SCALE = "scaler"


def new_scaler(device: torch.device, *, enabled: bool) -> torch.amp.GradScaler:
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device.type, enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)


def select(parameters: Mapping[str, nn.Parameter], prefix: str) -> list[nn.Parameter]:
    return [parameter for name, parameter in parameters.items() if name.startswith(prefix)]


class Settings(Protocol):
    """The optimiser's values, as recipes hold them."""

    @property
    def betas(self) -> tuple[float, float]: ...

    @property
    def eps(self) -> float: ...

    @property
    def clip_norm(self) -> float | None: ...


class Optimizer:
    """AdamW (Loshchilov and Hutter, arXiv 1711.05101) as the recipe sets it."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        settings: Settings,
        weight_decay: float,
        device: torch.device,
        dtype: torch.dtype,
        own_lr: Mapping[str, float] | None = None,
    ) -> None:
        """Optimise parameters by name; `own_lr` has constant learning rates by a name's prefix."""
        self._parameters = parameters
        self._clip_norm = settings.clip_norm
        own_lr = own_lr or {}
        others = [
            parameter
            for name, parameter in parameters.items()
            if not name.startswith(tuple(own_lr))
        ]
        groups: list[dict[str, Any]] = [{"params": others}]
        for prefix, lr in own_lr.items():
            groups.append({"params": select(parameters, prefix), "lr": lr})
        self._adamw = torch.optim.AdamW(
            groups, betas=settings.betas, eps=settings.eps, weight_decay=weight_decay
        )
        # fp16 cannot represent the smallest gradients: the loss is scaled up, as in QuRe's code.
        self._scaler = new_scaler(device, enabled=dtype == torch.float16)

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of all parameters that have none of their own."""
        self._adamw.param_groups[0]["lr"] = lr

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
