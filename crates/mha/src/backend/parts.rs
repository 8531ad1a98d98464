//! The tensors of a call that gradients flow into.

/// One of something for each of them: a tensor, its gradient, whether it is wanted.
#[derive(Debug, Clone)]
pub struct Parts<T> {
    /// `[batch, seq_q, n_heads, head_dim]`
    pub query: T,
    /// `[batch, n_keys, n_kv_heads, head_dim]`, the memory's keys last
    pub key: T,
    /// `[batch, n_keys, n_kv_heads, value_dim]`
    pub value: T,
    /// `[batch, n_heads, seq_q, seq_k]`, where any axis may be 1
    pub bias: Option<T>,
    /// The bias of each distance from -reach to reach: `[n_heads, 2 reach + 1]`
    pub relative: Option<T>,
    /// A logit for each head: `[n_heads]`
    pub sink: Option<T>,
}

impl<T> Parts<T> {
    /// The same for something else, in the order of the fields.
    pub fn map<U>(self, mut of: impl FnMut(T) -> U) -> Parts<U> {
        Parts {
            query: of(self.query),
            key: of(self.key),
            value: of(self.value),
            bias: self.bias.map(&mut of),
            relative: self.relative.map(&mut of),
            sink: self.sink.map(of),
        }
    }

    /// References to them.
    pub fn as_ref(&self) -> Parts<&T> {
        Parts {
            query: &self.query,
            key: &self.key,
            value: &self.value,
            bias: self.bias.as_ref(),
            relative: self.relative.as_ref(),
            sink: self.sink.as_ref(),
        }
    }

    /// Those that are there, in the order of the fields.
    pub fn list(self) -> Vec<T> {
        let Self { query, key, value, bias, relative, sink } = self;
        [Some(query), Some(key), Some(value), bias, relative, sink].into_iter().flatten().collect()
    }
}
