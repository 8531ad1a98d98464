//! The `gemm` crate on a product large enough for its full rate.

use std::time::Instant;

use gemm::Parallelism;

/// Rows and columns of the three matrices.
pub(crate) const SIDE: usize = 2048;

/// Floating-point operations of the product.
pub(crate) const OPERATIONS: f64 = 2.0 * (SIDE * SIDE * SIDE) as f64;

/// A product of two square matrices, with all threads.
pub(super) fn product() -> impl FnMut() -> Result<f64, String> {
    let [a, b] = [0.5, 0.25].map(|value| vec![value; SIDE * SIDE]);
    let mut out = vec![0.0; SIDE * SIDE];
    move || {
        let begin = Instant::now();
        multiply(&mut out, &a, &b, SIDE);
        let seconds = begin.elapsed().as_secs_f64();
        let expected = 0.125 * SIDE as f32;
        if out[0] == expected { Ok(seconds) } else { Err(format!("{} not {expected}", out[0])) }
    }
}

/// `out` = `a` times `b`, each `[n, n]`, row by row.
fn multiply(out: &mut [f32], a: &[f32], b: &[f32], n: usize) {
    assert!([out.len(), a.len(), b.len()] == [n * n; 3], "each is [{n}, {n}]");
    let rows = n as isize;
    #[expect(unsafe_code, reason = "gemm takes pointers")]
    // SAFETY: each of the three has n * n elements, as checked above, and is read or written with
    // strides of n and 1 below n rows and columns. `out` is borrowed alone.
    unsafe {
        gemm::gemm(
            n,
            n,
            n,
            out.as_mut_ptr(),
            1,
            rows,
            false, // what is in `out` does not count
            a.as_ptr(),
            1,
            rows,
            b.as_ptr(),
            1,
            rows,
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::Rayon(0),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_product() {
        let mut out = [0.0; 4];
        multiply(&mut out, &[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], 2);
        assert_eq!(out, [19.0, 22.0, 43.0, 50.0]);
    }
}
