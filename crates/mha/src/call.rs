//! One call of a module, checked before anything is computed.

use burn::tensor::{Tensor, TensorData, backend::Backend};

use crate::attention::check::{self, like};
use crate::attention::{AttentionOptions, Masking, PathTaken, SinkInput, Sizes, choose, fill};
use crate::cache::Plan;
use crate::error::check_shape;
use crate::mask::Mask;
use crate::widths::Widths;
use crate::{Error, KvCache, MhaInput, MultiHeadAttention, Position, Positions, Sink, Weights};

/// What a call asks for besides its tokens.
#[derive(Debug)]
pub(crate) struct Call<B: Backend> {
    pub(crate) options: AttentionOptions<B>,
    pub(crate) weights: Weights,
    /// Of the whole call, with the keys of a cache.
    pub(crate) sizes: Sizes,
    /// Keys that the call brings.
    pub(crate) new_keys: usize,
    pub(crate) query_positions: Option<Positions>,
    pub(crate) key_positions: Option<Positions>,
    query_lengths: Option<Vec<usize>>,
    pub(crate) plan: Option<Plan>,
}

impl<B: Backend> MultiHeadAttention<B> {
    /// The call and its query, key and value, whose shapes fit; key and value are empty where the
    /// cache has them all.
    pub(crate) fn check(
        &self,
        input: MhaInput<B>,
        cache: Option<&KvCache<B>>,
    ) -> Result<(Call<B>, [Tensor<B, 3>; 3]), Error> {
        let [query, key, value] = self.tokens(&input, cache)?;
        let new = self.new_sizes(&query, &key, &value)?;
        if cache.is_none() && input.new_lengths.is_some() {
            return Err(Error::value("new_lengths", "be given with a cache", "a call without one"));
        }
        let plan = match cache {
            Some(cache) => Some(cache.plan(&new, &query, input.new_lengths.as_deref())?),
            None => None,
        };
        let mut sizes = new;
        let mut options = self.options(&input)?;
        if let Some(plan) = &plan {
            sizes.seq_k = plan.seq_k;
            options.gap = plan.gap;
            if options.offset == Default::default() {
                options.offset = plan.offset.clone();
            }
            options.mask = plan.rules.iter().cloned().collect::<Mask<B>>().and(options.mask);
        }
        options.check(&sizes, "query", &query)?;
        self.check_positions(&input, &new, cache)?;
        if let Some(lengths) = &input.query_lengths {
            check::lengths("query_lengths", lengths, new.batch, (new.seq_q, "queries"))?;
        }

        let call = Call {
            options,
            weights: input.weights,
            sizes,
            new_keys: new.seq_k,
            query_positions: input.query_positions,
            key_positions: input.key_positions,
            query_lengths: input.query_lengths,
            plan,
        };
        let [key, value] = self.zero_hidden_keys([key, value], &call);
        Ok((call, [query, key, value]))
    }

    /// Checks the call as one without a cache.
    pub(crate) fn check_whole(&self, input: &MhaInput<B>) -> Result<(), Error> {
        let [query, key, value] = self.tokens(input, None)?;
        let sizes = self.new_sizes(&query, &key, &value)?;
        self.options(input)?.check(&sizes, "query", &query)?;
        self.check_positions(input, &sizes, None)
    }

    /// The path that the attention of a call takes, without computing anything.
    ///
    /// # Errors
    ///
    /// As [`try_forward`](Self::try_forward).
    ///
    /// # Example
    ///
    /// ```
    /// use burn::backend::NdArray;
    /// use burn::tensor::Tensor;
    /// use mha::{MhaInput, MultiHeadAttentionConfig};
    ///
    /// let device = Default::default();
    /// let config = MultiHeadAttentionConfig::new(8, 2).burn_nn_compat();
    /// let attention = config.init::<NdArray>(&device);
    /// let input = MhaInput::self_attn(Tensor::ones([1, 5, 8], &device));
    /// assert_eq!(
    ///     attention.attention_path(&input).unwrap().to_string(),
    ///     "plain: masking overwrites scores, as burn::nn does"
    /// );
    /// ```
    pub fn attention_path(&self, input: &MhaInput<B>) -> Result<PathTaken, Error> {
        let [query, key, value] = self.tokens(input, None)?;
        let sizes = self.new_sizes(&query, &key, &value)?;
        let options = self.options(input)?;
        options.check(&sizes, "query", &query)?;
        self.check_positions(input, &sizes, None)?;
        choose([query.dtype(); 3], &options, &sizes, &query.device())
    }

    fn tokens(
        &self,
        input: &MhaInput<B>,
        cache: Option<&KvCache<B>>,
    ) -> Result<[Tensor<B, 3>; 3], Error> {
        let query = input.query.clone();
        if !cache.is_some_and(KvCache::is_memory) {
            let [key, value] = input.given()?;
            return Ok([query, key, value]);
        }
        if input.memory.is_some() {
            let expected = "be left out: the cache holds those of the memory";
            return Err(Error::value("key and value", expected, "both"));
        }
        let Widths { d_key, d_value, .. } = self.settings.widths;
        let [batch, ..] = query.dims();
        let none = |width| Tensor::zeros([batch, 0, width], (&query.device(), query.dtype()));
        Ok([query.clone(), none(d_key), none(d_value)])
    }

    /// The sizes of a call, if its tokens fit the module and one another.
    pub(crate) fn new_sizes(
        &self,
        query: &Tensor<B, 3>,
        key: &Tensor<B, 3>,
        value: &Tensor<B, 3>,
    ) -> Result<Sizes, Error> {
        let [batch, seq_q, _] = query.dims();
        let [_, seq_k, _] = key.dims();
        let Widths { d_model, d_key, d_value, n_heads, n_kv_heads, head_dim, value_dim, .. } =
            self.settings.widths;
        let axes = ["batch", "seq_q", "d_model"];
        check_shape("query", axes, [batch, seq_q, d_model], query.dims())?;
        let axes = ["batch", "seq_k", "d_key"];
        check_shape("key", axes, [batch, seq_k, d_key], key.dims())?;
        let axes = ["batch", "seq_k", "d_value"];
        check_shape("value", axes, [batch, seq_k, d_value], value.dims())?;
        like("query", query, "the parameter query.weight", &self.query.weight.val())?;
        like("key", key, "query", query)?;
        like("value", value, "query", query)?;
        Ok(Sizes { batch, seq_q, seq_k, n_heads, n_kv_heads, head_dim, value_dim })
    }

    /// The options of the input, and those that the module adds.
    fn options(&self, input: &MhaInput<B>) -> Result<AttentionOptions<B>, Error> {
        let Widths { n_kv_heads, head_dim, value_dim, .. } = self.settings.widths;
        self.check_parameters()?;
        let mut options = input.options.clone();
        options.scale = self.settings.scale;
        options.softcap = self.settings.softcap;
        options.dropout.probability = self.settings.dropout;
        options.masking = self.settings.masking;
        options.weights = input.weights.wanted();
        options.path = input.path.unwrap_or(self.settings.path);
        options.sink = match self.settings.sink {
            Sink::None => SinkInput::None,
            Sink::Quiet => SinkInput::Quiet,
            Sink::ZeroKey => SinkInput::ZeroKey,
            Sink::Learned => match &self.sinks {
                Some(sinks) => SinkInput::Learned(sinks.val()),
                None => SinkInput::None,
            },
        };
        if let (Some(key), Some(value)) = (&self.bias_k, &self.bias_v) {
            let heads = |slots: Tensor<B, 2>, width| {
                let [n, _] = slots.dims();
                slots.reshape([n, n_kv_heads, width])
            };
            options.memory = Some([heads(key.val(), head_dim), heads(value.val(), value_dim)]);
        }
        match &self.settings.position {
            Position::None => {}
            Position::Alibi => options.alibi = Some(crate::alibi_slopes(self.n_heads())),
            Position::T5(buckets) => {
                if options.t5.is_some() {
                    let expected = "be left out of a module that has a table of its own";
                    return Err(Error::value("t5", expected, "a table"));
                }
                let table = self.relative_bias.as_ref().map(|table| table.val());
                options.t5 = table.map(|table| (*buckets, table));
            }
            Position::Rotary(rotary) if rotary.scale_factor() != 1.0 => {
                let scale = options.scale.unwrap_or(1.0 / (head_dim as f64).sqrt());
                options.scale = Some(scale * rotary.scale_factor());
            }
            Position::Rotary(_) => {}
        }
        Ok(options)
    }

    fn check_positions(
        &self,
        input: &MhaInput<B>,
        new: &Sizes,
        cache: Option<&KvCache<B>>,
    ) -> Result<(), Error> {
        let given = [
            ("query_positions", &input.query_positions, new.seq_q),
            ("key_positions", &input.key_positions, new.seq_k),
        ];
        for (name, positions, seq) in given {
            let Some(positions) = positions else { continue };
            let Position::Rotary(rotary) = &self.settings.position else {
                let expected = "be given to a module with rotary positions";
                return Err(Error::value(name, expected, "a module without"));
            };
            if name == "key_positions" && cache.is_some_and(KvCache::is_memory) {
                let expected = "be left out: the cache holds the keys of the memory";
                return Err(Error::value(name, expected, "positions"));
            }
            if cache.is_some() && rotary.depends_on_length() {
                let expected = "be left out with a cache and a scaling that depends on the length";
                return Err(Error::value(name, expected, "positions"));
            }
            positions.check(name, new.batch, seq)?;
        }
        Ok(())
    }

    /// Keys hidden from all count as 0 before the projection too, or a NaN in them would reach the
    /// gradients of the key and value weights (0 · NaN).
    fn zero_hidden_keys(&self, memory: [Tensor<B, 3>; 2], call: &Call<B>) -> [Tensor<B, 3>; 2] {
        let Call { options, sizes, plan, .. } = call;
        if options.masking != Masking::Exclude || sizes.is_empty() || plan.is_some() {
            return memory;
        }
        let device = memory[0].device();
        match options.mask.hidden_keys(&options.frame(sizes), &device) {
            Some(hidden) => {
                let rows = hidden.unsqueeze_dim::<3>(2);
                memory.map(|tokens| fill(tokens, rows.clone(), 0.0))
            }
            None => memory,
        }
    }

    /// The weights of some heads and some queries, before dropout, without computing those of the
    /// others: `[batch, heads, rows, seq_k]`. For pictures of long texts, whose whole matrix would not
    /// fit.
    ///
    /// # Errors
    ///
    /// As [`try_forward`](Self::try_forward), and when a head or a row is not there.
    ///
    /// # Example
    ///
    /// ```
    /// use burn::backend::NdArray;
    /// use burn::tensor::{Distribution, Tensor};
    /// use mha::{MhaInput, MultiHeadAttentionConfig};
    ///
    /// let device = Default::default();
    /// let attention = MultiHeadAttentionConfig::new(8, 4).init::<NdArray>(&device);
    /// let tokens = Tensor::random([1, 100, 8], Distribution::Default, &device);
    /// let input = MhaInput::self_attn(tokens).causal();
    /// let last = attention.weights_of(input, &[1, 3], &[99]).unwrap();
    /// assert_eq!(last.dims(), [1, 2, 1, 100]);
    /// ```
    pub fn weights_of(
        &self,
        input: MhaInput<B>,
        heads: &[usize],
        rows: &[usize],
    ) -> Result<Tensor<B, 4>, Error> {
        let input = input.weights(Weights::PerHead);
        let (call, [query, key, value]) = self.check(input, None)?;
        let [query, key, value] = self.project_on(call.options.path, query, key, value);
        let [query, key, value] = self.split_heads(query, key, value);
        let [query, key, _] = self.place(query, key, value, &call, None);
        crate::attention::weights_of(query, key, &call.options, heads, rows)
    }
}

impl<B: Backend> Call<B> {
    /// The output `[batch, seq_q, d_output]` with zeros for queries that are padding.
    pub(crate) fn without_padding(&self, output: Tensor<B, 3>) -> Tensor<B, 3> {
        let [batch, seq_q, _] = output.dims();
        match &self.query_lengths {
            Some(lengths) if batch * seq_q > 0 => {
                let padding =
                    lengths.iter().flat_map(|&length| (0..seq_q).map(move |i| i >= length));
                let padding = TensorData::new(padding.collect::<Vec<bool>>(), [batch, seq_q, 1]);
                fill(output.clone(), Tensor::from_data(padding, &output.device()), 0.0)
            }
            _ => output,
        }
    }
}
