"""Which step of which image a forward pass is."""

from __future__ import annotations

import torch

from dit_torch.steps import Place, Steps

SIZE = torch.Size((1, 16, 4))
PROMPT = torch.ones(1, 3, 2)
OTHER = torch.zeros(1, 3, 2)


def _places(steps: Steps, *given: tuple[float, torch.Tensor], count: int = 3) -> list[Place]:
    return [steps.next(timestep, count, SIZE, prompt) for timestep, prompt in given]


def test_timesteps_that_go_down_are_steps_of_one_image() -> None:
    places = _places(Steps(1), (1.0, PROMPT), (0.6, PROMPT), (0.2, PROMPT))
    assert places == [(0, 0, True), (1, 0, False), (2, 0, False)]


def test_a_timestep_that_goes_up_begins_an_image() -> None:
    places = _places(Steps(1), (1.0, PROMPT), (0.6, PROMPT), (0.9, PROMPT), (0.5, PROMPT))
    assert places[2:] == [(0, 0, True), (1, 0, False)]


def test_a_timestep_that_stays_is_the_next_branch() -> None:
    places = _places(Steps(2), (1.0, PROMPT), (1.0, OTHER), (0.6, PROMPT), (0.6, OTHER))
    assert places == [(0, 0, True), (0, 1, False), (1, 0, False), (1, 1, False)]


def test_another_prompt_begins_an_image() -> None:
    places = _places(Steps(1), (1.0, PROMPT), (0.6, OTHER), (0.2, OTHER))
    assert places == [(0, 0, True), (0, 0, True), (1, 0, False)]


def test_a_prompt_changed_in_place_begins_an_image() -> None:
    steps, prompt = Steps(1), PROMPT.clone()
    _places(steps, (1.0, prompt))
    prompt.zero_()
    assert steps.next(0.6, 3, SIZE, prompt).new_image


def test_the_same_prompt_in_another_tensor_is_the_same() -> None:
    assert _places(Steps(1), (1.0, PROMPT), (0.6, PROMPT.clone()))[1] == (1, 0, False)


def test_another_size_begins_an_image() -> None:
    steps = Steps(1)
    _places(steps, (1.0, PROMPT))
    assert steps.next(0.6, 3, torch.Size((1, 32, 4)), PROMPT) == (0, 0, True)


def test_more_steps_than_there_are_begin_an_image() -> None:
    places = _places(Steps(1), (1.0, PROMPT), (0.5, PROMPT), (0.2, PROMPT), count=2)
    assert places[2] == (0, 0, True)


def test_an_image_of_one_step_begins_anew_each_time() -> None:
    assert _places(Steps(1), (1.0, PROMPT), (1.0, PROMPT), count=1) == [(0, 0, True)] * 2


def test_an_image_given_up_in_its_first_step_leaves_nothing() -> None:
    assert _places(Steps(1), (1.0, PROMPT), (1.0, PROMPT))[1] == (0, 0, True)


def test_a_second_order_schedule_repeats_timesteps() -> None:
    places = _places(Steps(1), (1.0, PROMPT), (0.6, PROMPT), (0.6, PROMPT), count=5)
    assert places == [(0, 0, True), (1, 0, False), (2, 0, False)]


def test_guidance_branches_that_got_out_of_order_find_back() -> None:
    """One branch of an image, then it was given up."""
    steps = Steps(2)
    _places(steps, (1.0, PROMPT))
    places = _places(steps, (1.0, PROMPT), (1.0, OTHER), (0.6, PROMPT), (0.6, OTHER), (0.2, PROMPT))
    assert places[-3].new_image  # seen at the latest now
    assert places[-1] == (1, 0, False)


def test_a_branch_more_shows_in_the_first_step() -> None:
    steps = Steps(1, most=2)
    places = _places(steps, (1.0, PROMPT), (1.0, OTHER), (0.6, PROMPT), (0.6, OTHER), (0.2, PROMPT))
    assert places == [(0, 0, True), (0, 1, False), (1, 0, False), (1, 1, False), (2, 0, False)]
    assert steps.branches == 2
    assert _places(steps, (1.0, PROMPT), (1.0, OTHER), (0.6, PROMPT))[0].new_image


def test_the_same_prompt_again_is_no_branch() -> None:
    steps = Steps(1, most=2)
    assert _places(steps, (1.0, PROMPT), (1.0, PROMPT))[1] == (0, 0, True) and steps.branches == 1
    assert _places(steps, (0.6, PROMPT), (0.6, PROMPT), count=5)[1] == (2, 0, False) and steps.branches == 1


def test_no_more_branches_than_there_may_be() -> None:
    steps = Steps(1, most=1)
    assert _places(steps, (1.0, PROMPT), (1.0, OTHER))[1] == (0, 0, True) and steps.branches == 1


def test_a_picture_of_one_step_shows_no_branches() -> None:
    steps = Steps(1, most=2)
    assert _places(steps, (1.0, PROMPT), (1.0, OTHER), count=1)[1] == (0, 0, True) and steps.branches == 1
