"""Learners as configuration: the paper's numbers, bad numbers, help."""

import dataclasses

import pytest
import tyro

from gtrxl.algorithms import LEARNERS, PPO, VMPO, LearnerError, VTrace


def test_the_paper_s_settings():
    """The V-MPO table of Parisotto et al. 2020; what it samples log-uniformly lies within the range that it gives."""
    numpad, maze, dmlab = (VMPO.paper(name) for name in ("numpad", "memory_maze", "dmlab30"))
    for learner in (numpad, maze, dmlab):
        assert (learner.learning_rate, learner.multiplier_rate, learner.lam, learner.eps_eta) == (1e-4, 1e-4, 1.0, 0.1)
        assert (learner.target_period, learner.max_grad_norm, learner.epochs, learner.minibatches) == (10, 0.0, 1, 1)
    assert (numpad.eta_init, maze.eta_init, dmlab.eta_init) == (10.0, 1.0, 1.0)
    assert (maze.alpha_init, dmlab.alpha_init) == (5.0, 5.0)
    for learner, widest in ((numpad, 4e-4), (maze, 4e-5)):
        assert (learner.alpha_mean_init, learner.alpha_covariance_init) == (1.0, 1.0)
        assert 0.005 <= learner.eps_mean < 0.01
        assert 5e-6 <= learner.eps_covariance < widest
    for learner in (maze, dmlab):
        assert 0.001 <= learner.eps_alpha < 0.1
    assert VMPO.paper() == numpad


def test_the_paper_s_lstm_has_its_own_bound_on_dmlab30():
    """The table's two lines for eps_alpha: LSTM [0.001, 0.025), TrXL variants [0.001, 0.1). Nothing else depends on the model."""
    transformers, lstm = (VMPO.paper("dmlab30", recurrent=recurrent) for recurrent in (False, True))
    assert transformers.eps_alpha == pytest.approx((0.001 * 0.1) ** 0.5)
    assert lstm.eps_alpha == pytest.approx((0.001 * 0.025) ** 0.5)
    assert dataclasses.replace(lstm, eps_alpha=transformers.eps_alpha) == transformers
    for name in ("numpad", "memory_maze"):
        assert VMPO.paper(name, recurrent=True) == VMPO.paper(name)


BAD = [
    (lambda: VMPO(learning_rate=0.0), "learning_rate must be above 0, got 0; 1e-3 is a good start"),
    (lambda: PPO(learning_rate=float("nan")), "learning_rate must be a finite number, got nan; "),
    (lambda: VMPO(lam=1.5), "lam must be between 0 and 1, got 1.5; "),
    (lambda: VTrace(max_grad_norm=-1.0), "max_grad_norm must be at least 0, got -1; 0 switches clipping off"),
    (lambda: VMPO(target_period=0), "target_period must be at least 1, got 0; "),
    (lambda: PPO(epochs=0), "epochs must be at least 1, got 0; "),
    (lambda: PPO(minibatches=-1), "minibatches must be at least 1, got -1; "),
    (lambda: VMPO(multiplier_rate=0.0), "multiplier_rate must be above 0, got 0; "),
    *(
        (lambda name=name: dataclasses.replace(VMPO(), **{name: -1.0}), f"{name} must be at least 0, got -1; the paper ")
        for name in (
            "eps_eta", "eps_alpha", "eps_mean", "eps_covariance", "eta_init", "alpha_init", "alpha_mean_init",
            "alpha_covariance_init",
        )
    ),
    (lambda: PPO(clip=0.0), "clip must be above 0, got 0; 0.2 is usual"),
    (lambda: PPO(entropy_cost=-0.1), "entropy_cost must be at least 0, got -0.1; "),
    (lambda: PPO(value_cost=-0.1), "value_cost must be at least 0, got -0.1; "),
    (lambda: VTrace(rho_bar=0.0), "rho_bar must be above 0, got 0; IMPALA uses 1"),
    (lambda: VTrace(c_bar=2.0), "c_bar must be at most rho_bar (1), got 2; IMPALA uses 1 for both"),
    (lambda: VTrace(entropy_cost=-0.1), "entropy_cost must be at least 0, got -0.1; "),
    (lambda: VMPO.paper("atari"), "environment must be one of numpad, memory_maze, dmlab30, got 'atari'; "),
    (lambda: VMPO().multipliers(("beta",)), "a part of the KL must be one of categorical, mean, covariance, got 'beta'; "),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message.split(" must")[0] for _, message in BAD])
def test_bad_numbers_are_refused(make, message):
    with pytest.raises(LearnerError) as caught:
        make()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", LEARNERS)
def test_settings_are_options_with_help(name, capsys):
    """Every field is an option, and says what it is for."""
    kind = LEARNERS[name]
    assert tyro.cli(kind, args=["--lam", "0.5"]) == kind(lam=0.5)
    with pytest.raises(SystemExit):
        tyro.cli(kind, args=["--help"])
    shown = capsys.readouterr().out
    for field in dataclasses.fields(kind):
        option = f"--{field.name.replace('_', '-')}"
        assert option in shown
        described = shown[shown.index(option) :].split("(default")[0]
        assert len(described.split()) > 5, f"{option} has no help"
