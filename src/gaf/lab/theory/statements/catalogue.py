"""The list of statements."""

from __future__ import annotations

from gaf.common.errors import GafError
from gaf.lab.theory import bounds, convergence, curvature, definition, lemmas, saddle, vanishing
from gaf.lab.theory.statements import checks
from gaf.lab.theory.statements.findings import Statement

STAIRCASES = (
    "Random functions, ε₀, ε₂ and separable losses of one to three coordinates whose curvature is a "
    "staircase over the gradient, so that ℓ and c are exact; counted where every assumption holds."
)
BAND = (
    "The band ε₀ < |g| ≤ ε₂ belongs to no segment. Assumption {}(b) keeps it out for L; the proof needs "
    "the same for the activated gradient."
)
NOT_SEPARABLE = (
    "{} = {} over the coordinates is true where L is separable; the paper has it as an assumption."
)
NOT_QUADRATIC = " Its assumptions hold on no quadratic: its curvature is the same everywhere."

STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "definition-1",
        "Definition 1",
        "what a gradient activation function is",
        "f is a GAF if it is (1) twice differentiable and increasing, (2) odd, (3) f(g) ≤ g for all g ≥ "
        "ε with some ε ≥ 0, and (4) g f''(g) < 0. Arctan, Tanh and Log are given as examples.",
        "Arctan, Tanh and Log meet every clause at every g ≠ 0, for all α, β > 0.",
        (
            "Clause 4 cannot hold at g = 0 for any f: 0 · f''(0) = 0.",
            "Log is not twice differentiable at 0: its f'' jumps from +αβ² to −αβ².",
        ),
        (definition.RANGE, definition.WIDTH, definition.NONZERO),
        "Random α, β and g for clauses 1b to 4; sympy proves all clauses for all α, β > 0 (gaf.verify).",
        checks.definition_1,
    ),
    Statement(
        "lemma-1",
        "Lemma 1",
        "f stretches distances between small gradients",
        "If f' > 1 on |g| ≤ ε₀, then ‖f(ḡ) − f(g̃)‖ > ‖ḡ − g̃‖ for vectors ḡ ≠ g̃ of such gradients.",
        "As printed.",
        (),
        (lemmas.STEEP, lemmas.SMALL, lemmas.DIFFERENT),
        "Random functions, ε₀, and pairs of vectors, near and far apart.",
        checks.lemma_1,
    ),
    Statement(
        "lemma-2",
        "Lemma 2",
        "f shrinks distances between large gradients",
        "If there are ε₁ ≤ ε₂ with f'(ε₁) ≤ 1 and f(ε₂) ≤ ε₂, then ‖f(ḡ) − f(g̃)‖ < ‖ḡ − g̃‖ for all "
        "|g_n| > ε₂.",
        "The same with ε₁ > 0, for ḡ ≠ g̃.",
        (
            "The proof takes ε₁ > 0, and it is needed: f' is even, and ε₂ = 0 meets f(ε₂) ≤ ε₂.",
            "That ḡ ≠ g̃ is said in Lemma 1 only.",
        ),
        (
            *(lemmas.POSITIVE, lemmas.ORDERED, lemmas.FLAT),
            *(lemmas.RESTRAINED, lemmas.LARGE, lemmas.DIFFERENT),
        ),
        "Random functions, ε₁ of both signs, ε₂, and pairs of vectors, near and far apart.",
        checks.lemma_2,
    ),
    Statement(
        "theorem-1",
        "Theorem 1",
        "f lowers the Lipschitz constant ℓ of the gradient",
        "If the gradient is steeper where it is high (|g| > ε₂) than where it is low (|g| ≤ ε₀), with f "
        "and without, then ℓ^G < ℓ.",
        "The same for a separable loss, ε₂ at or beyond the crossover, and the band between ε₀ and ε₂ "
        "kept out of ℓ with f as well." + NOT_QUADRATIC,
        (BAND.format(4), NOT_SEPARABLE.format("ℓ", "max ℓ_n")),
        curvature.ASSUMED[1],
        STAIRCASES,
        checks.theorem_1,
    ),
    Statement(
        "theorem-2",
        "Theorem 2",
        "f raises the constant c of strong convexity",
        "If the loss is more convex where gradients are high than where they are low, with f and "
        "without, and f' > 1 on |g| ≤ ε₀, then c^G > c.",
        "The same for a separable loss that is strongly convex by inner products, and the band between "
        "ε₀ and ε₂ kept out of c with f as well." + NOT_QUADRATIC,
        (
            "Definition 4 takes c from ratios of norms, which do not see the sign: −w² meets it.",
            BAND.format(5),
            NOT_SEPARABLE.format("c", "min c_n"),
            "The inequality that the proof draws from Lemma 1, (c_n^L)^G < c_n^L, is the wrong way round.",
        ),
        curvature.ASSUMED[2],
        STAIRCASES,
        checks.theorem_2,
    ),
    Statement(
        "theorem-3",
        "Theorem 3",
        "f lowers the condition number ζ = ℓ/c",
        "Under the assumptions of Theorems 1 and 2, ζ^G < ζ.",
        "The same, under the sound assumptions of both." + NOT_QUADRATIC,
        (
            "Its assumptions exclude every quadratic, the paper's own Figure 1 among them: there "
            "arctan(0.1, 20) takes ζ from 5 to 1.6 × 10³. What improves is the anisotropy of the field, "
            "which is another measure.",
            "As printed, with no assumption on the activated gradient between ε₀ and ε₂, it is false: with "
            "the slopes 1 up to |g| = 0.04, 90 up to 0.05, 1 up to 0.12 and 100 up to 0.2, arctan(0.1, 20) "
            "takes ζ from 100 to 371.",
        ),
        curvature.ASSUMED[3],
        STAIRCASES,
        checks.theorem_3,
    ),
    Statement(
        "theorem-4",
        "Theorem 4",
        "SGD converges faster with f",
        "Under the assumptions of Theorem 3 and Assumption 6 on the noise, with η = μ/(ℓM_G), E[L(w_k) "
        "− L*] converges faster with f for k = 2, 3, ...",
        "Where ζ^G < ζ and c^G > c, as Theorems 2 and 3 conclude, the upper bound on E[L(w_k) − L*] is lower "
        "with f, provided that the noise constants and the "
        "first gap are the same and the first gap is not below the noise floor. With f it is a bound on "
        "the equivalent loss.",
        (
            "The proof compares two upper bounds. The gaps themselves can be in the other order.",
            "μ, M and M_G are taken to be the same with f, and E f(g) ≠ f(E g).",
            "With f SGD descends the equivalent loss, whose gap is another quantity than L(w_k) − L*.",
            "Assumption 6(b) says “unbiased estimate of L” where it means ∇L.",
        ),
        (
            *(bounds.BETTER, bounds.SAME_NOISE, bounds.SAME_GAP, bounds.ABOVE, bounds.LATER),
            *(convergence.AFTER, convergence.RATE),
        ),
        "The bounds, on constants of random losses inside Theorem 3. One step of SGD against its bound, "
        "in exact expectation over noise of two values. The printed claim itself, where there is no "
        "noise.",
        checks.theorem_4,
    ),
    Statement(
        "theorem-5",
        "Theorem 5",
        "f enlarges small gradients",
        "For Arctan with αβ > 1 there is ε₃ > 0 with |f(g)| > |g| for 0 < |g| < ε₃.",
        "The same for Arctan, Tanh and Log, with ε₃ the crossover.",
        (),
        (vanishing.STEEP, vanishing.BELOW, vanishing.NONZERO),
        "Random functions and gradients from 10⁻¹² of the crossover up to it.",
        checks.theorem_5,
    ),
    Statement(
        "theorem-6",
        "Theorem 6",
        "f leaves a saddle faster",
        "For Arctan with αβ > 1, while gradients are below ε₃, |w_{k+δ} − w_k| is larger with f: it "
        "escapes faster.",
        "While gradients of plain descent are below the crossover, each unstable coordinate of a "
        "separable saddle along which |g| grows with the distance has travelled at least as far with f, "
        "at every step. The time to leave a ball can still be longer.",
        (
            "The proof asks for β > 1; it is αβ > 1 that enlarges.",
            "Its sums run along two trajectories, of which it compares the gradients as if they were at "
            "the same points, and to the index δ in place of k + δ.",
            "It says nothing of the sign: a stable coordinate can overshoot and come back.",
        ),
        (saddle.STEEP, saddle.UNSTABLE, saddle.GROWING, saddle.BELOW, saddle.SEPARABLE),
        "For each of 15 functions 1,000 starts on coordinates g = −a w^(p−1), p = 2 or 4, random a and "
        "η, up to 200 steps. The time to leave a ball is measured apart.",
        checks.theorem_6,
    ),
)


def find(name: str) -> Statement:
    """A statement by its name, such as "theorem-3" or "Theorem 3"."""
    wanted = "-".join(name.lower().split())
    for statement in STATEMENTS:
        if statement.name == wanted:
            return statement
    known = ", ".join(statement.name for statement in STATEMENTS)
    raise GafError(f"there is no statement {name!r}; there are {known}")
