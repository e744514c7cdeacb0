"""Published gradient-squashing optimizers, each as a small class over lists of plain tensors.

Every class has one method, ``step(params, grads)``. It changes ``params`` in place, leaves ``grads``
alone, and keeps its state by position, so the lists must keep their order. Defaults are the published
ones; where none are published the docstring says so. In the formulas g is the gradient, w the weight,
lr the learning rate, wd the weight decay and mu the momentum.
"""

import math

import torch

# --- element-wise functions -------------------------------------------------------------------------


def mu_law(x, mu=127.0):
    """sign(x) * log(1 + mu |x|) / log(1 + mu), as HeavyBall's ``mu_law_compress``."""
    return ((x.abs() * mu).log1p() / math.log1p(mu)).copysign(x)


def a_law(x, a=87.6):
    """sign(x) * (A|x| if A|x| < 1, else 1 + log(A|x|)) / (1 + log A), as HeavyBall's ``a_law_compress``."""
    y = x.abs() * a
    return torch.where(y < 1, y, 1 + y.log()).copysign(x) * (1 / (1 + math.log(a)))


def softsign(x):
    """2x / (1 + |x|), as HeavyBall's ``softsign_compress``: slope 2 at zero, bound 2."""
    return 2.0 * x / (1.0 + x.abs())


def trust_region(x, lerp=0.9, scale=1.5):
    """HeavyBall's ``trust_region_clip_``: a blend of tanh and log, kept within -2 and 2.

    With y = x / scale: scale * (lerp * tanh(y) + (1 - lerp) * sign(y) * log(1 + |y|)), then the clamp.
    """
    y = x / scale
    bounded = y.tanh()
    slow = y.abs().log1p().copysign(bounded)
    return ((slow * (1 - lerp) + bounded * lerp) * scale).clamp(-2, 2)


def arctan(x, alpha, beta):
    """alpha * atan(beta * x)."""
    return alpha * torch.atan(beta * x)


def tanh(x, alpha, beta):
    """alpha * tanh(beta * x)."""
    return alpha * torch.tanh(beta * x)


def log_relu(x, alpha, beta):
    """alpha * sign(x) * log(1 + beta |x|) in the form of the activated-gradients code.

    That code writes log(relu(y) + 1) - log(relu(-y) + 1), not log1p: tiny arguments give exactly zero.
    """
    y = beta * x
    return alpha * torch.log(torch.relu(y) + 1) - alpha * torch.log(torch.relu(-y) + 1)


def bi_clip(x, lower, upper):
    """sign(x) * min(max(|x|, lower), upper); zero stays zero."""
    return x.abs().clamp(lower, upper) * x.sign()


def smooth_sign(x, eps):
    """x / sqrt(x^2 + eps^2)."""
    return x / (x * x + eps * eps).sqrt()


def arc(x):
    """x / sqrt(1 + x^2)."""
    return x / (1 + x * x).sqrt()


# --- shared parts -----------------------------------------------------------------------------------


class Rule:
    """Counts the steps and keeps one dictionary of state per tensor."""

    def __init__(self):
        self.count = 0
        self.state = []

    @torch.no_grad()
    def step(self, params, grads):
        self.count += 1
        while len(self.state) < len(params):
            self.state.append({})
        self.apply(params, grads)

    def apply(self, params, grads):
        for state, param, grad in zip(self.state, params, grads, strict=True):
            self.one(state, param, grad)

    def one(self, state, param, grad):
        raise NotImplementedError


def velocity(state, grad, momentum, dampening=0.0, nesterov=False):
    """torch's momentum: the first velocity is the gradient itself, without dampening."""
    if momentum == 0:
        return grad
    if "velocity" in state:
        state["velocity"] = state["velocity"] * momentum + grad * (1 - dampening)
    else:
        state["velocity"] = grad.clone()
    return grad + state["velocity"] * momentum if nesterov else state["velocity"]


def average(state, key, value, decay):
    """An exponential moving average that starts at zero."""
    old = state.get(key)
    old = torch.zeros_like(value) if old is None else old
    state[key] = old.lerp(value, 1 - decay)
    return state[key]


# --- Adam-atan2 -------------------------------------------------------------------------------------


class AdamAtan2(Rule):
    """Adam-atan2: w <- (1 - lr wd) w - lr * a * atan2(m^, b * sqrt(v^)), with Adam's m^ and v^ and no eps.

    Paper: arXiv 2407.05872. Code: lucidrains/adam-atan2-pytorch 0.4.1, ``AdamAtan2``, whose defaults
    these are: betas (0.9, 0.99), a = 1.27, b = 1. That package's further options (cautious updates,
    regenerative regularization, decay independent of lr) are left out; they are off by default there.
    Both averages zero give atan2(0, 0) = 0. Uncertain: betas of the paper's own experiments.
    """

    def __init__(self, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, a=1.27, b=1.0):
        super().__init__()
        self.lr, self.betas, self.weight_decay, self.a, self.b = lr, betas, weight_decay, a, b

    def one(self, state, param, grad):
        beta1, beta2 = self.betas
        m = average(state, "m", grad, beta1) * (1 / (1 - beta1**self.count))
        v = average(state, "v", grad * grad, beta2)
        root = (v * (self.b * self.b / (1 - beta2**self.count))).sqrt()
        if self.weight_decay:
            param.mul_(1 - self.lr * self.weight_decay)
        param.add_(torch.atan2(m, root), alpha=-self.lr * self.a)


# --- sign-based rules -------------------------------------------------------------------------------


class Signum(Rule):
    """Signum: w <- (1 - lr wd) w - lr * sign(m), m an exponential moving average of g from zero.

    With momentum 0 it is signSGD. Paper: arXiv 1802.04434. Code: ``SignSGD`` of pytorch_optimizer 4.1.0,
    whose defaults these are. ``decoupled=False`` adds wd * w to the gradient, before the average,
    instead. Other codes use the heavy-ball velocity mu v + g: the same signs, since it is the same sum
    times 1 / (1 - mu), as long as mu does not change.
    """

    def __init__(self, lr=1e-3, momentum=0.9, weight_decay=0.0, decoupled=True):
        super().__init__()
        self.lr, self.momentum = lr, momentum
        self.weight_decay, self.decoupled = weight_decay, decoupled

    def one(self, state, param, grad):
        if self.weight_decay and self.decoupled:
            param.mul_(1 - self.lr * self.weight_decay)
        elif self.weight_decay:
            grad = grad + param * self.weight_decay
        if self.momentum:
            grad = average(state, "m", grad, self.momentum)
        param.add_(grad.sign(), alpha=-self.lr)


class Lion(Rule):
    """Lion: w <- (1 - lr wd) w - lr * sign(b1 m + (1 - b1) g), then m <- b2 m + (1 - b2) g.

    Paper: arXiv 2302.06675. Code: lion-pytorch 0.2.5 and ``Lion`` of pytorch_optimizer 4.1.0, which
    agree and whose defaults these are.
    """

    def __init__(self, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__()
        self.lr, self.betas, self.weight_decay = lr, betas, weight_decay

    def one(self, state, param, grad):
        beta1, beta2 = self.betas
        m = state.get("m", torch.zeros_like(grad))
        param.mul_(1 - self.lr * self.weight_decay)
        param.add_((m * beta1 + grad * (1 - beta1)).sign(), alpha=-self.lr)
        state["m"] = m * beta2 + grad * (1 - beta2)


class SoftSignum(Rule):
    """SoftSignum: w <- (1 - lr wd) w - lr * sign(u); after ``sign_iters`` steps tanh(tau_k u) for the sign.

    u is torch's SGD velocity (g itself when momentum is 0; Nesterov allowed). At the first soft step the
    median c and the median absolute deviation s of all entries of u, of all tensors together, are taken
    *once*, and the whole schedule follows from them: for k = 0, 1, ... q_k is the k / transition_iters
    quantile of |x| for x Cauchy(c, s), found by Newton's method, and tau_k = atanh(1 - eps) / q_k, kept
    within 1 and tmax. So tau is no single number: it falls along the transition.

    Paper: arXiv 2605.31371. Code: brain-lab-research/softsign, ``softsignum.py``, whose defaults these
    are (the paper's share of hard steps is 0.9, hence 9000 and 1000). As there, the schedule is in
    torch's default floating type whatever the type of the weights, the decay comes before the step, and
    a step after the last of the schedule raises IndexError. torch's median is the lower one of the two
    middle values. The code's options ``normalized`` and ``sign_norm`` (off by default) are left out.
    Uncertain: the class has tmax = 20, the function that it calls 1e9; the paper's value was not found.
    """

    def __init__(
        self,
        lr=1e-3,
        momentum=0.0,
        dampening=0.0,
        weight_decay=0.0,
        nesterov=False,
        transition_iters=1000,
        eps=1e-4,
        newton_iters=10,
        sign_iters=9000,
        tmax=20.0,
    ):
        super().__init__()
        self.lr, self.momentum, self.dampening = lr, momentum, dampening
        self.weight_decay, self.nesterov = weight_decay, nesterov
        self.transition_iters, self.eps, self.newton_iters = transition_iters, eps, newton_iters
        self.sign_iters, self.tmax = sign_iters, tmax
        self.schedule = None

    def temperatures(self, values):
        center = values.median()
        spread = (values - center).abs().median()
        share = torch.arange(self.transition_iters, device=values.device) / self.transition_iters
        quantile = spread * torch.tan(math.pi * ((1 + share) / 2 - 0.5)) + center.abs()
        for _ in range(self.newton_iters):
            right = (quantile - center) / (spread + 1e-8)
            left = (-quantile - center) / (spread + 1e-8)
            excess = cauchy_cdf(right) - cauchy_cdf(left) - share
            slope = (cauchy_pdf(right) + cauchy_pdf(left)) / spread
            quantile = (quantile - excess / slope).clamp(min=0.0)
        return (torch.atanh(torch.tensor(1 - self.eps)) / quantile).clamp(1, self.tmax)

    def apply(self, params, grads):
        directions = []
        for state, param, grad in zip(self.state, params, grads, strict=True):
            if self.weight_decay:
                param.mul_(1 - self.lr * self.weight_decay)
            directions.append(velocity(state, grad, self.momentum, self.dampening, self.nesterov))
        soft = self.count - 1 - self.sign_iters
        if soft == 0:
            self.schedule = self.temperatures(torch.cat([u.reshape(-1) for u in directions]))
        for param, u in zip(params, directions, strict=True):
            u = u.sign() if soft < 0 else torch.tanh(self.schedule[soft] * u)
            param.add_(u, alpha=-self.lr)


def cauchy_cdf(x):
    return torch.atan(x) / math.pi + 0.5


def cauchy_pdf(x):
    return (-math.log(math.pi) - (x**2).log1p()).exp()


class SmoothSign(Rule):
    """Smoothed sign of the momentum: w <- (1 - lr wd) w - lr * m / sqrt(m^2 + eps^2).

    m is torch's velocity mu m + (1 - dampening) g, or with ``ema=True`` the moving average from zero.
    The two differ here by a factor 1 - mu in the scale of eps. No single source: it is the algebraic
    soft sign x / sqrt(1 + x^2) of arXiv 2605.31371 (there for singular values), at x = m / eps. The
    defaults are chosen here, none are published.
    """

    def __init__(self, lr=1e-3, momentum=0.9, eps=1e-3, weight_decay=0.0, dampening=0.0, ema=False):
        super().__init__()
        self.lr, self.momentum, self.eps = lr, momentum, eps
        self.weight_decay, self.dampening, self.ema = weight_decay, dampening, ema

    def one(self, state, param, grad):
        if self.ema:
            m = average(state, "m", grad, self.momentum)
        else:
            m = velocity(state, grad, self.momentum, self.dampening)
        if self.weight_decay:
            param.mul_(1 - self.lr * self.weight_decay)
        param.add_(smooth_sign(m, self.eps), alpha=-self.lr)


# --- rules on the gradient --------------------------------------------------------------------------


class AlphaGrad(Rule):
    """AlphaGrad: g' = tanh(alpha * g / (norm(g) + eps)) + wd * w per tensor, then torch's SGD velocity of g'.

    Paper: arXiv 2504.16020, tensor-wise norm, optional momentum. Code: a public class ``AlphaGrad`` with
    these defaults. The decay is added after the tanh and goes through the momentum (it is not decoupled,
    though a comment there calls it so). The paper writes the velocity with lr inside: the same while lr
    is constant. Uncertain: whether that class is the author's own; alpha must be tuned, says the paper.
    """

    def __init__(
        self,
        lr=1e-3,
        alpha=1.0,
        eps=1e-8,
        momentum=0.0,
        dampening=0.0,
        weight_decay=0.0,
        nesterov=False,
    ):
        super().__init__()
        self.lr, self.alpha, self.eps, self.momentum = lr, alpha, eps, momentum
        self.dampening, self.weight_decay, self.nesterov = dampening, weight_decay, nesterov

    def one(self, state, param, grad):
        grad = torch.tanh(self.alpha * (grad / (grad.norm() + self.eps)))
        if self.weight_decay:
            grad = grad + param * self.weight_decay
        u = velocity(state, grad, self.momentum, self.dampening, self.nesterov)
        param.add_(u, alpha=-self.lr)


class ArcGD(Rule):
    """ArcGD: w <- w - a T - b T (1 - |T|) - c sign(T) (1 - |T|), with T = g / sqrt(1 + g^2) per element.

    a is the ceiling, b the transition, c the floor; b = c = 0 is the plain a * g / sqrt(1 + g^2). There
    is no separate learning rate. Paper: arXiv 2512.06737; the three terms as summaries of it give them.
    Neither its text nor its code was found, so this is uncertain: the defaults (chosen here), whether
    the paper's floor adapts, and its variant with momentum, which is left out.
    """

    def __init__(self, a=0.01, b=0.0, c=0.0):
        super().__init__()
        self.a, self.b, self.c = a, b, c

    def one(self, state, param, grad):
        t = arc(grad)
        rest = 1 - t.abs()
        param.sub_(self.a * t + self.b * t * rest + self.c * t.sign() * rest)


class BiClip(Rule):
    """BiClip on SGD: w <- (w - lr * sign(g) min(max(|g|, lower), upper)) * (1 - lr wd), per coordinate.

    Zero gradients stay zero. The decay multiplies *after* the step. Paper: arXiv 2502.04164 (inside a
    distributed method; here the single-machine rule). Code: a public ``BiClipSGD_Full``, which says that
    it adapts sulee3/Heavy_Tails, ``models/ClipUpdate.py``; the defaults (lr 1e-3, lower 1, upper
    infinite) are its own. The paper tunes both thresholds, so they are no recommendation. That
    code's schedules of lr and thresholds (powers of the epoch, exponent 0 by default) are left out.
    """

    def __init__(self, lr=1e-3, lower=1.0, upper=math.inf, weight_decay=0.0):
        super().__init__()
        self.lr, self.lower, self.upper, self.weight_decay = lr, lower, upper, weight_decay

    def one(self, state, param, grad):
        param.add_(bi_clip(grad, self.lower, self.upper), alpha=-self.lr)
        if self.weight_decay:
            param.mul_(1 - self.lr * self.weight_decay)


class ClipValue(Rule):
    """``clip_grad_value_`` of torch and then its SGD: clamp g, then add wd * w, then momentum.

    torch has no default for ``clip_value``; lr is SGD's.
    """

    def __init__(
        self, clip_value, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False
    ):
        super().__init__()
        self.clip_value, self.lr, self.momentum = clip_value, lr, momentum
        self.dampening, self.weight_decay, self.nesterov = dampening, weight_decay, nesterov

    def one(self, state, param, grad):
        grad = grad.clamp(-self.clip_value, self.clip_value)
        if self.weight_decay:
            grad = grad + param * self.weight_decay
        u = velocity(state, grad, self.momentum, self.dampening, self.nesterov)
        param.add_(u, alpha=-self.lr)


# --- HeavyBall --------------------------------------------------------------------------------------


class HeavyBall(Rule):
    """A HeavyBall optimizer with f on the outgoing update or on the incoming gradient.

    ``update_clipping=f``: w <- (1 - lr wd) w - lr * f(u); ``gradient_clipping=f``: g <- f(g) first of
    all. lr and weight decay are never inside f. f is any of ``mu_law``, ``a_law``, ``softsign``,
    ``trust_region``. Only HeavyBall's PSGD family has one of them (the trust region, on the update) by
    default. Code: HeavyBall 3.2.1, ``utils.py`` and ``chainable.py``; no paper.
    Two roundings of the package are not repeated here: its lr passes through torch's default floating
    type at every step, and its state is float32 unless ``storage_dtype`` says otherwise, both also for
    float64 weights.
    """

    def __init__(self, lr, weight_decay, update_clipping, gradient_clipping):
        super().__init__()
        self.lr, self.weight_decay = lr, weight_decay
        self.update_clipping, self.gradient_clipping = update_clipping, gradient_clipping

    def one(self, state, param, grad):
        if self.gradient_clipping is not None:
            grad = self.gradient_clipping(grad)
        u = self.direction(state, grad)
        if self.update_clipping is not None:
            u = self.update_clipping(u)
        param.copy_(param * (1 - self.weight_decay * self.lr) + u * -self.lr)

    def direction(self, state, grad):
        raise NotImplementedError


class HeavyBallSGD(HeavyBall):
    """HeavyBall's SGD: u <- beta u + g from zero. Defaults lr 0.0025, beta 0.9."""

    def __init__(
        self,
        lr=0.0025,
        beta=0.9,
        weight_decay=0.0,
        update_clipping=None,
        gradient_clipping=None,
    ):
        super().__init__(lr, weight_decay, update_clipping, gradient_clipping)
        self.beta = beta

    def direction(self, state, grad):
        state["u"] = state.get("u", torch.zeros_like(grad)) * self.beta + grad
        return state["u"]


class HeavyBallAdamW(HeavyBall):
    """HeavyBall's AdamW: u = m / max(sqrt(v), eps). Defaults lr 0.0025, betas (0.9, 0.99), eps 1e-8.

    The bias correction sits in the decay: at step t the weight of the new value is
    (1 - beta) / (1 - beta^t), which gives Adam's m^ and v^ in the stored averages themselves. eps is a
    lower bound of the root, not added to it.
    """

    def __init__(
        self,
        lr=0.0025,
        betas=(0.9, 0.99),
        eps=1e-8,
        weight_decay=0.0,
        update_clipping=None,
        gradient_clipping=None,
    ):
        super().__init__(lr, weight_decay, update_clipping, gradient_clipping)
        self.betas, self.eps = betas, eps

    def direction(self, state, grad):
        beta1, beta2 = self.betas
        m = average(state, "m", grad, 1 - (1 - beta1) / (1 - beta1**self.count))
        v = average(state, "v", grad * grad, 1 - (1 - beta2) / (1 - beta2**self.count))
        return m / v.sqrt().clamp(min=self.eps)


# --- the code of the activated-gradients paper ------------------------------------------------------


class SGDAtan(Rule):
    """``SGD_atan``: g' = alpha * atan(beta g) + wd * w, then torch's SGD: decay after f.

    Code: LongJin-lab/Activated-Gradients-for-Deep-Neural-Networks, ``GAF.py``. Its defaults, alpha 0.3
    and beta 4.5, are not the paper's (0.1, 20) or (0.2, 10). lr has no default there.
    """

    def __init__(
        self,
        lr,
        momentum=0.0,
        dampening=0.0,
        weight_decay=0.0,
        alpha=0.3,
        beta=4.5,
        nesterov=False,
    ):
        super().__init__()
        self.lr, self.momentum, self.dampening = lr, momentum, dampening
        self.weight_decay, self.nesterov = weight_decay, nesterov
        self.alpha, self.beta = alpha, beta

    def one(self, state, param, grad):
        grad = arctan(grad, self.alpha, self.beta)
        if self.weight_decay:
            grad = grad + param * self.weight_decay
        u = velocity(state, grad, self.momentum, self.dampening, self.nesterov)
        param.add_(u, alpha=-self.lr)


class SGDAtanMom(SGDAtan):
    """``SGD_atanMom``: u = torch's SGD direction of g + wd * w, then w <- w - lr * alpha * atan(beta u).

    The velocity kept is the one before f. With momentum 0, f acts on g + wd * w. Code and defaults as
    for ``SGDAtan``; ``SGDTanhMom`` and ``SGDLogMom`` are ``SGD_tanh_Mom`` and ``SGD_log_Mom`` there.
    """

    def squash(self, u):
        return arctan(u, self.alpha, self.beta)

    def one(self, state, param, grad):
        if self.weight_decay:
            grad = grad + param * self.weight_decay
        u = velocity(state, grad, self.momentum, self.dampening, self.nesterov)
        param.add_(self.squash(u), alpha=-self.lr)


class SGDTanhMom(SGDAtanMom):
    """``SGD_tanh_Mom``: ``SGDAtanMom`` with alpha * tanh(beta u)."""

    def squash(self, u):
        return tanh(u, self.alpha, self.beta)


class SGDLogMom(SGDAtanMom):
    """``SGD_log_Mom``: ``SGDAtanMom`` with the logarithm in the form of ``log_relu``."""

    def squash(self, u):
        return log_relu(u, self.alpha, self.beta)


class SGDAtanMomAda(SGDAtanMom):
    """``SGD_atanMom_Ada``: ``SGDAtanMom`` with alpha = 2 max(u) / (pi * shrink) and beta = gamma / alpha.

    The maximum is of u itself, not of |u|, per tensor and anew at every step: there is no running
    maximum in the code. The sign of alpha cancels; a tensor whose maximum is exactly 0 gives NaN.
    The defaults of shrink and gamma in the code are 0, which also gives NaN, so both are required here;
    the repository's scripts run shrink 2 with gamma 2 and with gamma 1.3.
    """

    def __init__(
        self, lr, shrink, gamma, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False
    ):
        super().__init__(lr, momentum, dampening, weight_decay, nesterov=nesterov)
        self.shrink, self.gamma = shrink, gamma

    def squash(self, u):
        alpha = u.max() * 2 / (math.pi * self.shrink)
        return arctan(u, alpha, self.gamma / alpha)


class AdamAtan(Rule):
    """``Adam_atan``: g' = alpha * atan(beta g) + wd * w, then Adam, eps before the bias correction.

    w <- w - lr * sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + eps), which is torch's Adam with
    eps / sqrt(1 - b2^t). A negative beta switches f off. Code: ``CIFAR/Adam.py`` of the same repository,
    with these defaults. The class of the same name in ``GAF.py`` never reads alpha and beta and stops
    with NameError.
    """

    def __init__(
        self, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, alpha=0.1, beta=15.0
    ):
        super().__init__()
        self.lr, self.betas, self.eps = lr, betas, eps
        self.weight_decay, self.alpha, self.beta = weight_decay, alpha, beta

    def one(self, state, param, grad):
        beta1, beta2 = self.betas
        if self.beta >= 0:
            grad = arctan(grad, self.alpha, self.beta)
        if self.weight_decay:
            grad = grad + param * self.weight_decay
        state["m"] = state.get("m", torch.zeros_like(grad)) * beta1 + grad * (1 - beta1)
        state["v"] = state.get("v", torch.zeros_like(grad)) * beta2 + grad * grad * (1 - beta2)
        size = self.lr * math.sqrt(1 - beta2**self.count) / (1 - beta1**self.count)
        param.add_(state["m"] / (state["v"].sqrt() + self.eps), alpha=-size)
