//! The cache of `burn::nn`'s users, under their names.

use burn::tensor::{Tensor, backend::Backend};

use super::KvCache;
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
    /// same again.
    pub fn autoregressive_cross_attention() -> Self {
        Self { keys: None, cross: true, context: None }
    }
}

impl<B: Backend> MultiHeadAttention<B> {
    /// [`forward`](Self::forward) on a sequence of which the cache has seen the beginning; only the
    /// rest is computed. Masks are those of the whole sequence; weights are those of the new queries.
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
    /// As [`try_forward_cached`](Self::try_forward_cached), and when no token of the query is new.
    pub fn try_forward_cache(
        &self,
        input: MhaInput<B>,
        cache: &mut MhaCache<B>,
    ) -> Result<MhaOutput<B>, Error> {
        let seen = cache.context.as_ref().map_or(0, |context| context.dims()[1]);
        let [_, seq_q, _] = input.query.dims();
        if seq_q <= seen {
            let expected = format!("be longer than the {seen} tokens that the cache has seen");
            return Err(Error::value("query", expected, seq_q));
        }
        let (batch, entries) = (input.query.dims()[0], cache.context.as_ref().map(|x| x.dims()[0]));
        if entries.is_some_and(|entries| entries != batch) {
            let expected = format!("have {batch} (batch) entries");
            return Err(Error::value("cache", expected, entries.unwrap_or(0)));
        }
        let mut input = input.tail(seq_q - seen, !cache.cross);
        let keys = match &mut cache.keys {
            Some(keys) => keys,
            empty => {
                let [key, value] = input.given()?;
                empty.insert(self.cache_memory(key, value)?)
            }
        };
        if cache.cross {
            input.memory = None;
        }
        let out = self.try_forward_cached(input, keys)?;
        let context = match cache.context.take() {
            Some(context) => Tensor::cat(vec![context, out.context], 1),
            None => out.context,
        };
        cache.context = Some(context.clone());
        Ok(MhaOutput { context, ..out })
    }
}
