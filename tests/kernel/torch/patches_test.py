# SPDX-License-Identifier: Apache-2.0
"""The patches of kernel/torch/patches on the releases they are for: what they change, and what they leave alone.

Each release runs three times, each in a process of its own: as released, patched but not switched on, and switched on. The
numbers of all three are judged by the proven bounds of their problem (plumbline.check), each in its own arithmetic.
"""

import importlib
import shutil
import sys
import tempfile
import types
import unittest
import unittest.mock

import torch
from releases import FOLDER, PATCHES, Releases, packages, unavailable
from support import PACKAGE, bits_are_equal

# Contracts of the releases' own arithmetic. TRL and verl form the entropy as lse - sum(p x), TRL the logprob as x_y - lse.
OURS = {"accumulate": "fp32", "d_logits": "fp32"}
THEIRS = {"transformers": "pytorch-fp32-logits", "torchtitan": "pytorch-fp32-logits",
          "trl": "fp32,d_logits=fp32,softmax=unshifted", "verl": "pytorch-fp32-logits,softmax=unshifted"}  # fmt: skip
ROWS, HIDDEN_SIZE, VOCABULARY = (4, 8), 16, 130
ADAPTED = {"adapter": "lm_head", "adapter below the head": "q_proj"}


def drawn(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def labels_of_rows():
    labels = torch.randint(0, VOCABULARY, ROWS, generator=torch.Generator().manual_seed(9))
    labels[1, 3] = -100
    return labels


def moved(labels):
    """The label that each position predicts."""
    return torch.cat((labels[:, 1:], torch.full_like(labels[:, :1], -100)), 1)


def call_of(hidden, weight, labels, outputs, **more):
    """One call, as plumbline.check takes it; the gradients are those that backward has left."""
    flat = {"hidden": hidden.detach().reshape(-1, HIDDEN_SIZE), "weight": weight.detach(), "labels": labels.reshape(-1)}
    given = {name: value.detach().reshape(-1) if value.dim() else value.detach() for name, value in outputs.items()}
    given |= {"grad_hidden": hidden.grad.reshape(-1, HIDDEN_SIZE), "grad_weight": weight.grad}
    return {"inputs": flat | more, "outputs": given}


def differentiated(hidden, weight, labels, outputs, temperature):
    """The call with outputs (logprob, entropy), after backward."""
    upstream = drawn(*ROWS, seed=5), drawn(*ROWS, seed=6)
    torch.autograd.backward(outputs, upstream)
    more = dict(zip(("grad_logprob", "grad_entropy"), (each.reshape(-1) for each in upstream), strict=True))
    return call_of(hidden, weight, labels, {"logprob": outputs[0], "entropy": outputs[1]}, temperature=temperature, **more)


def tiny(name="Llama"):
    """A causal LM of one layer, whose head's inputs keep their gradient."""
    transformers = importlib.import_module("transformers")
    config = getattr(transformers, f"{name}Config")(
        vocab_size=VOCABULARY, hidden_size=HIDDEN_SIZE, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, head_dim=8, tie_word_embeddings=False)  # fmt: skip
    torch.manual_seed(3)
    model = getattr(transformers, f"{name}ForCausalLM")(config).train()
    torch.nn.init.normal_(model.lm_head.weight, std=0.5)
    kept = []

    def keep(module, given, outputs):
        outputs.last_hidden_state.retain_grad()
        kept.append(outputs.last_hidden_state)

    model.model.register_forward_hook(keep)
    return model, kept


def said_of(call, *given, **named):
    """The words of a refusal."""
    try:
        call(*given, **named)
    except (TypeError, ValueError) as refusal:
        return str(refusal)
    return "nothing was refused"


def adapted(model, on):
    """The model with a LoRA adapter on its head, or on a projection below it."""
    peft = importlib.import_module("peft")
    made = peft.inject_adapter_in_model(peft.LoraConfig(r=2, target_modules=[on], init_lora_weights=False), model)
    return made.requires_grad_()  # the hook of tiny() retains a gradient


def of_transformers(on):
    loss_utils = importlib.import_module("transformers.loss.loss_utils")
    labels, calls, refused = labels_of_rows(), [], {}
    for name in ("Llama", "Qwen2", "Qwen3"):
        for items in (None, torch.tensor(16), "others")[: 3 if name == "Llama" else 1]:
            model, kept = tiny(name)
            if on:
                model.loss_function = loss_utils.PlumblineForCausalLMLoss
            predicted = labels.flip(1) if items == "others" else moved(labels)
            given = {"shift_labels": predicted} if items == "others" else {"num_items_in_batch": items}
            outputs = model(input_ids=labels.clamp(min=0), labels=labels, **given)
            outputs.loss.backward()
            assert on == (outputs.logits is None)
            # A loss divided by 16 is the sum of a call whose upstream gradient is 1/16, exactly.
            by, reduction = (16, "sum") if isinstance(items, torch.Tensor) else (1, "mean")
            more = {"reduction": reduction, "grad_logprob": torch.tensor(1 / by)}
            calls.append(call_of(kept[0], model.lm_head.weight, predicted, {"loss": outputs.loss * by}, **more))
            assert model(input_ids=labels.clamp(min=0)).logits.shape == (*ROWS, VOCABULARY)
    if on:
        assert model.loss_type == "ForCausalLM"  # Trainer counts the labels of num_items_in_batch by it
        model.model._forward_hooks.clear()
        whole = torch.compile(model, backend="aot_eager", fullgraph=True)
        losses = [each(input_ids=labels.clamp(min=0), labels=labels, use_cache=False).loss for each in (model, whole)]
        assert losses[0] == losses[1]
        for name, kind in {"bias": "Llama", "model": "Mistral"}.items():
            model, _ = tiny(kind)
            model.loss_function = loss_utils.PlumblineForCausalLMLoss
            model.lm_head = torch.nn.Linear(HIDDEN_SIZE, VOCABULARY, bias=name == "bias")
            refused[name] = said_of(model, input_ids=labels.clamp(min=0), labels=labels)
        for name, place in ADAPTED.items():
            model, _ = tiny()
            model.loss_function = loss_utils.PlumblineForCausalLMLoss
            refused[name] = said_of(adapted(model, place), input_ids=labels.clamp(min=0), labels=labels)
    return calls, refused


def of_trl(on):
    utils = importlib.import_module("trl.trainer.utils")
    kernel = {"kernel": "plumbline"} if on else {}
    labels, calls, refused = labels_of_rows(), [], {}
    for temperature, scale in ((1.0, 1.0), (0.7, 1.0), (0.5, 0.25)):
        model, kept = tiny()
        model.config.logit_scale = scale
        utils.add_fused_lm_head(model, temperature, outputs=("log_probs", "entropy"), **kernel)
        outputs = model(input_ids=labels.clamp(min=0), labels=labels, fused_lm_head=True)
        # TRL leaves out the last position, which predicts nothing.
        found = [torch.nn.functional.pad(value, (0, 1)) for value in (outputs.log_probs, outputs.entropy)]
        calls.append(differentiated(kept[0], model.lm_head.weight, moved(labels), found, temperature / scale))
    if on:
        for name, output, softcap in (("softcap", "log_probs", 30.0), ("outputs", "is_top1", None)):
            model, _ = tiny()
            model.config.final_logit_softcapping = softcap
            utils.add_fused_lm_head(model, outputs=(output,), **kernel)
            refused[name] = said_of(model, input_ids=labels.clamp(min=0), labels=labels, fused_lm_head=True)
        for name, place in ADAPTED.items():
            model, _ = tiny()
            utils.add_fused_lm_head(model, **kernel)
            refused[name] = said_of(adapted(model, place), input_ids=labels.clamp(min=0), labels=labels, fused_lm_head=True)
        step_of_grpo()
    return calls, refused


def step_of_grpo():
    """One step of GRPOTrainer, whose policy and reference model both call the operator."""
    trl, tokenizers, datasets = (importlib.import_module(name) for name in ("trl", "tokenizers", "datasets"))
    words = {"[PAD]": 0, "[EOS]": 1, **{f"w{i}": i for i in range(2, VOCABULARY)}}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[PAD]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made = {"tokenizer_object": made, "pad_token": "[PAD]", "eos_token": "[EOS]"}
    fast = importlib.import_module("transformers").PreTrainedTokenizerFast(**made)
    kernels = importlib.import_module("plumbline.torch")
    spy = unittest.mock.patch.object(kernels, "trl_chunked_logprob", wraps=kernels.trl_chunked_logprob)
    with tempfile.TemporaryDirectory() as folder, spy as called:
        tiny()[0].save_pretrained(folder)
        options = trl.GRPOConfig(
            f"{folder}/out", use_cpu=True, bf16=False, save_strategy="no", num_generations=4, beta=0.1, temperature=0.7,
            max_steps=1, per_device_train_batch_size=4, max_completion_length=6, fused_lm_head_kernel="plumbline")  # fmt: skip
        prompts = datasets.Dataset.from_list([{"prompt": "w5 w6 w7"}] * 8)
        reward = lambda completions, **_: [float(at) for at in range(len(completions))]
        trl.GRPOTrainer(folder, reward, options, prompts, processing_class=fast).train()
    assert [each.args[4] for each in called.call_args_list] == [0.7, 0.7]


def of_verl(on):
    patching = importlib.import_module("verl.models.transformers.monkey_patch")

    class Model(torch.nn.Module):
        """The parts of a causal LM that verl's forward uses."""

        def __init__(self):
            super().__init__()
            self.config = types.SimpleNamespace(model_type="llama", output_attentions=False, output_hidden_states=False)
            self.lm_head = torch.nn.Linear(HIDDEN_SIZE, VOCABULARY, bias=False)
            self.lm_head.weight.data = drawn(VOCABULARY, HIDDEN_SIZE, seed=1)
            self.hidden = drawn(*ROWS, HIDDEN_SIZE, seed=2).requires_grad_()
            self.q_proj = torch.nn.Linear(HIDDEN_SIZE, HIDDEN_SIZE)

        def model(self, **given):
            return type("Outputs", (tuple,), {"past_key_values": None, "hidden_states": None, "attentions": None})((self.hidden,))

    calls = []
    # Positions predict the next label of their row, the last one the first.
    labels = labels_of_rows().clamp(min=0)
    for temperature in (1.0, 0.7):
        model = Model()
        patching.patch_forward_with_backends(model, True, "plumbline" if on else "torch")
        outputs = model.forward(input_ids=labels, temperature=temperature, return_dict=True)
        assert outputs.log_probs.shape == outputs.entropy.shape == labels.shape
        found = (outputs.log_probs, outputs.entropy)
        calls.append(differentiated(model.hidden, model.lm_head.weight, labels.roll(-1, 1), found, temperature))
    fused = importlib.import_module("verl.utils.experimental.torch_functional").FusedLinearForPPO
    refused = {"backend": said_of(fused, impl_backend="plumblime")}
    for name, place in ADAPTED.items() if on else ():
        model = Model()
        patching.patch_forward_with_backends(model, True, "plumbline")
        refused[name] = said_of(adapted(model, place).forward, input_ids=labels, return_dict=True)
    return calls, refused


def of_torchtitan(on):
    losses = importlib.import_module("torchtitan.components.loss")
    linear = importlib.import_module("torchtitan.models.common.linear").Linear
    labels, calls, refused = labels_of_rows(), [], {}
    for by in (1, 32):
        loss_fn = (losses.PlumblineLoss.Config() if on else losses.ChunkedLossWrapper.Config(num_chunks=2)).build()
        head = linear.Config(in_features=HIDDEN_SIZE, out_features=VOCABULARY).build()
        head.weight.data = drawn(VOCABULARY, HIDDEN_SIZE, seed=1)
        hidden = drawn(*ROWS, HIDDEN_SIZE, seed=2).requires_grad_()
        assert torch.equal(head(hidden.detach()), torch.nn.functional.linear(hidden.detach(), head.weight))
        loss_fn.set_lm_head(head)
        loss, _ = loss_fn(hidden, labels, *((torch.tensor(by),) if by > 1 else ()))
        loss.backward()
        more = {"reduction": "sum", "grad_logprob": torch.tensor(1 / by)}
        calls.append(call_of(hidden, head.weight, labels, {"loss": loss * by}, **more))
    if on:
        loss_fn = losses.PlumblineLoss.Config().build()
        loss_fn.set_lm_head(linear.Config(in_features=HIDDEN_SIZE, out_features=VOCABULARY, bias=True).build())
        refused["bias"] = said_of(loss_fn, hidden, labels)
        other = losses.PlumblineLoss.Config(loss_fn=losses.MSELoss.Config()).build()
        refused["loss"] = said_of(other, hidden, labels)
        calls.append(sharded(losses.PlumblineLoss.Config().build(), head, labels))
    return calls, refused


def sharded(loss_fn, head, labels):
    """The same under FSDP2, on one rank: its hooks gather the weight and reduce its gradient."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    head.weight.grad = None
    torch.distributed.fsdp.fully_shard(head, mesh=torch.distributed.init_device_mesh("cpu", (1,)))
    loss_fn.set_lm_head(head)
    hidden = drawn(*ROWS, HIDDEN_SIZE, seed=2).requires_grad_()
    loss, _ = loss_fn(hidden, labels)
    loss.backward()
    weight = head.weight.full_tensor().detach()
    weight.grad = head.weight.grad.full_tensor()
    return call_of(hidden, weight, labels, {"loss": loss}, reduction="sum", grad_logprob=torch.tensor(1.0))


def child(project, on, path):
    calls, refused = globals()[f"of_{project}"](on)
    patched = importlib.import_module(project).__file__
    torch.save({"calls": calls, "refused": refused, "used": "plumbline" in sys.modules, "imported": patched}, path)


class Patches(unittest.TestCase):
    releases = None

    # Fails if a patch grows beyond what a maintainer reads at once, needs fuzz or an offset, or its page leaves it out.
    def test_they_apply(self):
        page = (FOLDER / "README.md").read_text(encoding="utf-8")
        self.assertEqual(set(PATCHES), set(THEIRS))
        for project, patch in PATCHES.items():
            with self.subTest(project):
                self.assertLessEqual(len(patch.read_text(encoding="utf-8").splitlines()), 40)
                applied = self.releases.applied[project]
                self.assertEqual(applied.returncode, 0, applied.stdout + applied.stderr)
                self.assertNotIn("offset", applied.stdout)
                self.assertIn(patch.name, page)

    # Fails if a patch gives the operator other labels, another temperature or another weight than the release's own kernel
    # gets, or scales a gradient otherwise; and if the bounds would let such a patch pass.
    def test_switched_on(self):
        for project in PATCHES:
            with self.subTest(project):
                found = self.releases.computed(project, "patched", True)
                self.assertTrue(found["used"])
                plain = self.releases.computed(project, "plain", False)["calls"]
                self.assertGreaterEqual(len(found["calls"]), len(plain))
                for ours, theirs in zip(found["calls"], plain, strict=False):
                    for name, one in theirs["inputs"].items():
                        other = ours["inputs"][name]
                        self.assertTrue(torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other, name)
                for call in found["calls"]:
                    self.judge(call, OURS)
                for call in plain:
                    self.judge(call, THEIRS[project])

    def judge(self, call, contract):
        import plumbline

        def verdict(outputs=(), **inputs):
            return plumbline.check(call["inputs"] | inputs, call["outputs"] | dict(outputs), contract, rows="all").verdict

        self.assertEqual(verdict(), "clean")
        self.assertEqual(verdict(labels=call["inputs"]["labels"].roll(1)), "findings")
        if call["inputs"].get("temperature", 1.0) != 1.0:
            self.assertEqual(verdict(temperature=1.0), "findings")
        for name, tensor in call["outputs"].items():
            self.assertEqual(verdict({name: tensor * 1.001}), "findings", name)

    # Fails if a patch changes a bit, or loads plumbline, where nobody has switched it on.
    def test_not_switched_on(self):
        for project in PATCHES:
            with self.subTest(project):
                patched, plain = (self.releases.computed(project, kind, False) for kind in ("patched", "plain"))
                self.assertFalse(patched["used"] or plain["used"])
                for one, other in zip(patched["calls"], plain["calls"], strict=True):
                    self.assertEqual(set(one["outputs"]), set(other["outputs"]))
                    for name, tensor in one["outputs"].items():
                        self.assertTrue(bits_are_equal(tensor.reshape(-1), other["outputs"][name].reshape(-1)), name)

    # Fails if what the operator lacks is computed in silence, a head's adapter is left out, or one elsewhere is refused.
    def test_refusals(self):
        adapters = {"adapter": "head is a peft.tuners.lora.layer.Linear", "adapter below the head": "nothing was refused"}
        expected = {
            "transformers": {"bias": "head.bias has shape", "model": "missing 2 required positional arguments"} | adapters,
            "trl": {"softcap": "final_logit_softcapping = 30.0", "outputs": "outputs = ('is_top1',)"} | adapters,
            "verl": {"backend": "Unsupported FusedLinearForPPO backend: plumblime"} | adapters,
            "torchtitan": {"bias": "a head with a bias", "loss": "CrossEntropyLoss without tensor parallelism"},
        }
        for project, words in expected.items():
            refused = self.releases.computed(project, "patched", True)["refused"]
            self.assertEqual(set(refused), set(words))
            for name, said in words.items():
                self.assertIn(said, refused[name])

    # Fails if a patch breaks what the release tests itself: torchtitan alone ships tests of the patched function.
    def test_own_tests(self):
        module = "torchtitan.experiments.graph_trainer.tests.test_chunked_loss"
        ran = self.releases.python("torchtitan", "patched", "-m", "unittest", module)
        self.assertEqual(ran.returncode, 0, ran.stderr[-4000:])
        self.assertIn("Ran 3 tests", ran.stderr)


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], sys.argv[3] == "1", sys.argv[4])
    sys.path.insert(0, str(PACKAGE))
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("patch") is None:
            unavailable("there is no program patch")
        packages()
        Patches.releases = Releases(folder, __file__)
        unittest.main()


if __name__ == "__main__":
    main()
