//! How a module prints.

use burn::module::{Content, DisplaySettings, ModuleDisplay};
use burn::tensor::backend::Backend;

use crate::settings::Settings;
use crate::widths::Widths;
use crate::{Gate, MultiHeadAttention, Position, Sink};

impl<B: Backend> ModuleDisplay for MultiHeadAttention<B> {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    /// The widths, and whatever is not as in the plainest module.
    fn custom_content(&self, content: Content) -> Option<Content> {
        let Settings { widths, scale, softcap, dropout, sink, position, gate, .. } = &self.settings;
        let &Widths { d_model, d_key, d_value, d_output, .. } = widths;
        let content = content.add("d_model", &d_model);
        let others = [("d_key", d_key), ("d_value", d_value), ("d_output", d_output)];
        let others = others.iter().filter(|(_, width)| *width != d_model);
        let content = others.fold(content, |content, (name, width)| content.add(name, width));
        let content = content
            .add("n_heads", &self.n_heads())
            .add("n_kv_heads", &self.n_kv_heads())
            .add("head_dim", &self.head_dim())
            .add("value_dim", &self.value_dim());
        let numbers = [("scale", scale), ("softcap", softcap)];
        let numbers = numbers.iter().filter_map(|(name, x)| Some((name, (**x)?)));
        let content = numbers
            .fold(content, |content, (name, x)| content.add(name, &x))
            .add("dropout", dropout);
        let content = match position {
            Position::None => content,
            position => content.add_debug_attribute("position", position),
        };
        let content = match self.settings.bias_kv {
            0 => content,
            n => content.add("bias_kv", &n),
        };
        let content = match sink {
            Sink::None => content,
            sink => content.add_debug_attribute("sink", sink),
        };
        let content = match gate {
            Gate::None => content,
            gate => content.add_debug_attribute("gate", gate),
        };
        content.add_debug_attribute("masking", &self.settings.masking).optional()
    }
}
