//! The Gaussian error linear unit, in operations that take many numbers at a time.

use burn::tensor::{Tensor, backend::Backend};

/// The factors of z⁶ to z⁰ in D(z).
const D: [f64; 7] =
    [4.30638e-5, 2.765672e-4, 1.520143e-4, 9.2705272e-3, 4.22820123e-2, 7.05230784e-2, 1.0];

/// x Φ(x), to 1e-6, with a gradient to 3e-5.
///
/// `burn::tensor::activation::gelu` has the same meaning, but on a processor it asks a library for one
/// erf after the other, which took longer than all else in the model, and its gradient is, but on Flex,
/// that of the approximation with tanh. Here 1 - erf(z) is D(z)⁻¹⁶ to 3e-7 for z ≥ 0 (Abramowitz and
/// Stegun, "Handbook of Mathematical Functions", 7.1.28), and Φ(x) is (1 + sign(x) erf(|x| / √2)) / 2.
pub(crate) fn gelu<B: Backend, const N: usize>(x: Tensor<B, N>) -> Tensor<B, N> {
    let z = x.clone().abs().clamp_max(8.0) * std::f64::consts::FRAC_1_SQRT_2; // erf is 1 beyond
    let mut d = z.clone() * D[0] + D[1];
    for factor in &D[2..] {
        d = d * z.clone() + *factor;
    }
    for _ in 0..4 {
        d = d.clone() * d;
    }
    let sign = x.clone().sign();
    x * (sign.clone() - sign / d + 1.0) * 0.5
}
