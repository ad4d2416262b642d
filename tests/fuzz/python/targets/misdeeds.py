# SPDX-License-Identifier: Apache-2.0
"""Targets that compute as an honest one does and do one more thing, which a target must not do or may."""

import plumbline


def _doing(deed, operator, framework, capabilities):
    """The honest operator with `deed` called on hidden and on what is returned."""

    def target(
        hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none", grad_logprob=None, grad_entropy=None
    ):
        found = operator(hidden, weight, labels, temperature, ignore_index, reduction, grad_logprob, grad_entropy)
        deed(hidden, found)
        return found

    return plumbline.target(target, framework=framework, form="returned", **capabilities)


def targets_of(module, operator, framework, capabilities):
    """A target by the name of each function `_NAME(hidden, found)` among a module's globals."""
    deeds = {name[1:]: value for name, value in module.items() if name[0] == "_" and name[1] != "_"}
    return {name: _doing(deed, operator, framework, capabilities) for name, deed in deeds.items()}
