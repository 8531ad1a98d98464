//! The plainest attention on slices: what tests hold the kernels against.

use crate::call::Sizes;
use crate::{Call, Error, Gradients, Output, Real, Saved, Wanted};

struct Naive<'a, T> {
    call: &'a Call<'a, T>,
    sizes: Sizes,
}

impl<T: Real> Naive<'_, T> {
    fn hidden(&self, [b, h, i, j]: [usize; 4]) -> bool {
        if j >= self.sizes.seq_k {
            return false;
        }
        let mask = &self.call.mask;
        let Sizes { batch, n_heads, seq_q, seq_k, .. } = self.sizes;
        mask.runs.is_some_and(|runs| !runs.of(b, i).iter().any(|run| run.contains(&j)))
            || mask.segments.iter().any(|ids| ids.of(b)[0][i] != ids.of(b)[1][j])
            || mask.dense.iter().any(|dense| {
                let dense = dense.broadcast("", "", [batch, n_heads, seq_q, seq_k]).unwrap();
                dense.get([b, h, i, j])
            })
    }

    /// The score, and its derivative by the product of query and key.
    fn score(&self, [b, h, i, j]: [usize; 4]) -> (f64, f64) {
        let pair = [b, h, i, j];
        let Sizes { batch, n_heads, seq_q, seq_k, head_dim, .. } = self.sizes;
        if self.hidden(pair) {
            return (f64::NEG_INFINITY, 0.0);
        }
        let call = self.call;
        let g = h / self.sizes.group();
        let raw: f64 = (0..head_dim)
            .map(|d| call.query.get([b, i, h, d]).to_f64() * call.key.get([b, j, g, d]).to_f64())
            .sum();
        let (mut score, mut slope) = (raw * call.scale, call.scale);
        if let Some(cap) = call.softcap {
            let tanh = (score / cap).tanh();
            score = cap * tanh;
            slope *= 1.0 - tanh * tanh;
        }
        if j < seq_k {
            if let Some(bias) = call.bias {
                let bias = bias.broadcast("", "", [batch, n_heads, seq_q, seq_k]).unwrap();
                score += bias.get(pair).to_f64();
            }
            let distance = call.positions.distance(b, i, j);
            if let Some(slopes) = call.alibi {
                score -= slopes[h] * (distance as f64).abs();
            }
            if let Some(relative) = &call.relative {
                score += relative.table[h * relative.width() + relative.index(distance)].to_f64();
            }
        }
        (score, slope)
    }

    fn kept(&self, pair: [usize; 4]) -> f64 {
        match self.call.dropout {
            Some(dropout) if dropout.drops(pair) => 0.0,
            Some(dropout) => 1.0 / (1.0 - dropout.probability),
            None => 1.0,
        }
    }

    fn lse(&self, [b, h, i]: [usize; 3]) -> f64 {
        let mut all: Vec<f64> =
            (0..self.sizes.n_keys).map(|j| self.score([b, h, i, j]).0).collect();
        all.extend(self.call.sink.map(|sink| sink[h].to_f64()));
        let max = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if max == f64::NEG_INFINITY {
            return max;
        }
        max + all.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
    }

    fn rows(&self) -> impl Iterator<Item = [usize; 3]> {
        let Sizes { batch, seq_q, n_heads, .. } = self.sizes;
        (0..batch * n_heads * seq_q)
            .map(move |at| [at / seq_q / n_heads, at / seq_q % n_heads, at % seq_q])
    }
}

pub(crate) fn forward<T: Real>(call: &Call<'_, T>) -> Result<Output<T>, Error> {
    let sizes = call.check()?;
    let naive = Naive { call, sizes };
    let Sizes { batch, seq_q, n_heads, n_keys, value_dim, .. } = sizes;
    let mut context = vec![T::default(); batch * seq_q * n_heads * value_dim];
    let (mut all, mut rest) = (Vec::new(), Vec::new());
    for [b, h, i] in naive.rows() {
        let lse = naive.lse([b, h, i]);
        all.push(T::from_f64(lse));
        rest.push(T::from_f64(if lse.is_finite() { lse - T::from_f64(lse).to_f64() } else { 0.0 }));
        for d in 0..value_dim {
            let sum: f64 = (0..n_keys)
                .filter(|&j| naive.score([b, h, i, j]).0 != f64::NEG_INFINITY)
                .map(|j| {
                    let weight = (naive.score([b, h, i, j]).0 - lse).exp();
                    weight
                        * naive.kept([b, h, i, j])
                        * call.value.get([b, j, h / sizes.group(), d]).to_f64()
                })
                .sum();
            context[((b * seq_q + i) * n_heads + h) * value_dim + d] = T::from_f64(sum);
        }
    }
    Ok(Output { context, lse: all, rest })
}

pub(crate) fn backward<T: Real>(
    call: &Call<'_, T>,
    saved: &Saved<'_, T>,
    wanted: Wanted,
) -> Result<Gradients<T>, Error> {
    let sizes = call.check()?;
    let naive = Naive { call, sizes };
    let Sizes { batch, seq_q, n_heads, n_kv_heads, n_keys, seq_k, head_dim, value_dim } = sizes;
    let mut query = vec![0.0; batch * seq_q * n_heads * head_dim];
    let mut key = vec![0.0; batch * n_keys * n_kv_heads * head_dim];
    let mut value = vec![0.0; batch * n_keys * n_kv_heads * value_dim];
    let mut bias = call.bias.map(|bias| vec![0.0; bias.dims().iter().product()]);
    let mut relative = call.relative.map(|relative| vec![0.0; relative.table.len()]);
    let mut sink = call.sink.map(|sink| vec![0.0; sink.len()]);
    for [b, h, i] in naive.rows() {
        let g = h / sizes.group();
        let lse = naive.lse([b, h, i]);
        let dot = |j: usize| -> f64 {
            (0..value_dim)
                .map(|d| {
                    saved.d_context.get([b, i, h, d]).to_f64()
                        * call.value.get([b, j, g, d]).to_f64()
                })
                .sum()
        };
        let delta: f64 = (0..value_dim)
            .map(|d| {
                saved.d_context.get([b, i, h, d]).to_f64()
                    * saved.context.get([b, i, h, d]).to_f64()
            })
            .sum();
        if let (Some(sink), Some(logits)) = (&mut sink, call.sink) {
            let weight = (logits[h].to_f64() - lse).exp();
            sink[h] -= if weight > 0.0 { weight * delta } else { 0.0 };
        }
        for j in 0..n_keys {
            let (score, slope) = naive.score([b, h, i, j]);
            if score == f64::NEG_INFINITY {
                continue;
            }
            let weight = (score - lse).exp();
            let kept = naive.kept([b, h, i, j]);
            let d_score = weight * (kept * dot(j) - delta);
            for d in 0..value_dim {
                value[((b * n_keys + j) * n_kv_heads + g) * value_dim + d] +=
                    weight * kept * saved.d_context.get([b, i, h, d]).to_f64();
            }
            for d in 0..head_dim {
                query[((b * seq_q + i) * n_heads + h) * head_dim + d] +=
                    d_score * slope * call.key.get([b, j, g, d]).to_f64();
                key[((b * n_keys + j) * n_kv_heads + g) * head_dim + d] +=
                    d_score * slope * call.query.get([b, i, h, d]).to_f64();
            }
            if j >= seq_k {
                continue;
            }
            if let (Some(gradient), Some(bias)) = (&mut bias, call.bias) {
                let dims = bias.dims();
                let at = dims
                    .iter()
                    .zip([b, h, i, j])
                    .fold(0, |at, (&dim, x)| at * dim + if dim == 1 { 0 } else { x });
                gradient[at] += d_score;
            }
            if let (Some(gradient), Some(relative)) = (&mut relative, &call.relative) {
                let distance = call.positions.distance(b, i, j);
                gradient[h * relative.width() + relative.index(distance)] += d_score;
            }
        }
    }
    let round = |all: Vec<f64>| all.into_iter().map(T::from_f64).collect::<Vec<T>>();
    Ok(Gradients {
        query: wanted.query.then(|| round(query)),
        key: wanted.key.then(|| round(key)),
        value: wanted.value.then(|| round(value)),
        bias: bias.filter(|_| wanted.bias).map(round),
        relative: relative.filter(|_| wanted.relative).map(round),
        sink: sink.filter(|_| wanted.sink).map(round),
    })
}
