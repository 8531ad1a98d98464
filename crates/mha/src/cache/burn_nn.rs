//! The cache of `burn::nn`'s users, under their names.

use burn::tensor::{Tensor, backend::Backend};

use super::KvCache;
use crate::error::check_shape;
use crate::{Error, MhaInput, MhaOutput, MultiHeadAttention};

/// A cache for [`MultiHeadAttention::forward_cache`], as in `burn::nn`: each call brings the whole
/// sequence so far, and gives the context of all of it. [`KvCache`] takes the new tokens alone.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::{Distribution, Tensor};
/// use mha::{MhaCache, MhaInput, MultiHeadAttentionConfig};
///
/// let device = Default::default();
/// let attention = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&device);
/// let tokens = Tensor::random([1, 7, 8], Distribution::Default, &device);
/// let mut cache = MhaCache::autoregressive();
/// for n in 1..=7 {
///     let so_far = MhaInput::self_attn(tokens.clone().narrow(1, 0, n)).causal();
///     assert_eq!(attention.forward_cache(so_far, &mut cache).context.dims(), [1, n, 8]);
/// }
/// ```
#[derive(Debug, Clone)]
pub struct MhaCache<B: Backend> {
    /// Empty until a memory has been projected.
    keys: Option<KvCache<B>>,
    cross: bool,
    context: Option<Tensor<B, 3>>,
}

impl<B: Backend> MhaCache<B> {
    /// For self-attention, a token after the other.
    pub fn autoregressive() -> Self {
        Self { keys: Some(KvCache::growing()), cross: false, context: None }
    }

    /// For cross-attention: the first call's keys and values stay, those of later calls are those
    /// same again and not looked at.
    pub fn autoregressive_cross_attention() -> Self {
        Self { keys: None, cross: true, context: None }
    }
}

impl<B: Backend> MultiHeadAttention<B> {
    /// [`forward`](Self::forward) on a sequence of which the cache has seen the beginning; only the
    /// rest is computed. Masks, bias and positions are those of the whole sequence; weights and
    /// log-sum-exps are those of the new queries.
    ///
    /// # Panics
    ///
    /// When [`try_forward_cache`](Self::try_forward_cache) gives an error, with its text.
    #[track_caller]
    pub fn forward_cache(&self, input: MhaInput<B>, cache: &mut MhaCache<B>) -> MhaOutput<B> {
        self.try_forward_cache(input, cache).unwrap_or_else(|error| panic!("{error}"))
    }

    /// [`forward_cache`](Self::forward_cache), or an error that says what does not fit; the cache is
    /// then as it was.
    ///
    /// # Errors
    ///
    /// As [`try_forward_cached`](Self::try_forward_cached), when no token of the query or of a growing
    /// key is new, and when a memory has another length than before.
    pub fn try_forward_cache(
        &self,
        input: MhaInput<B>,
        cache: &mut MhaCache<B>,
    ) -> Result<MhaOutput<B>, Error> {
        self.check_whole(&input)?;
        if let Some(lengths) = &input.new_lengths {
            let expected = "be left out: all tokens of the query are true ones";
            return Err(Error::value("new_lengths", expected, format!("{lengths:?}")));
        }
        let [key, value] = input.given()?;
        let ([batch, seq_q, _], [_, seq_k, d_key]) = (input.query.dims(), key.dims());
        let [entries, seen, _] = cache.context.as_ref().map_or([batch, 0, 0], Tensor::dims);
        if entries != batch {
            let expected = format!("have {batch} (batch) entries");
            return Err(Error::value("cache", expected, entries));
        }
        longer("query", seq_q, seen)?;

        let mut memory = None;
        let keys = match &mut cache.keys {
            Some(keys) => keys,
            None => memory.insert(self.cache_memory(key, value)?),
        };
        let input = if cache.cross {
            let axes = ["batch", "seq_k", "d_key"];
            check_shape("key", axes, [batch, keys.rows(), d_key], [batch, seq_k, d_key])?;
            MhaInput { memory: None, ..input.skip(seen, 0) }
        } else {
            longer("key", seq_k, keys.len())?;
            input.skip(seen, keys.len())
        };
        let out = self.try_forward_cached(input, keys)?;
        if memory.is_some() {
            cache.keys = memory;
        }
        let context = match cache.context.take() {
            Some(context) if batch > 0 => Tensor::cat(vec![context, out.context], 1),
            Some(_) => {
                // Without an entry there is nothing to put together, and not every backend would.
                let [_, _, d_output] = out.context.dims();
                let like = (&out.context.device(), out.context.dtype());
                Tensor::zeros([batch, seq_q, d_output], like)
            }
            None => out.context,
        };
        cache.context = Some(context.clone());
        Ok(MhaOutput { context, ..out })
    }
}

fn longer(name: &'static str, seq: usize, seen: usize) -> Result<(), Error> {
    if seq > seen {
        return Ok(());
    }
    let expected = format!("be longer than the {seen} tokens that the cache has seen");
    Err(Error::value(name, expected, seq))
}
