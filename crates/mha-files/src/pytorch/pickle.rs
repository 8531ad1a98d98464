//! Reads a pickle as data: <https://docs.python.org/3/library/pickletools.html> says what each
//! instruction means. Nothing is imported, called or built; a call is kept as a function's name and its
//! arguments.

use std::collections::HashMap;
use std::mem::take;

use super::input::Input;
use super::value::{Node, Pickle, Value};
use crate::error::Problem;

/// The most instructions, values on the stack, and objects or memos that a pickle may have: what bounds
/// the memory that it takes. PyTorch spells a tensor in about forty instructions and eight objects, and
/// puts a thousand values at a time on the stack.
const LONGEST: usize = 1 << 24;
const HIGHEST: usize = 1 << 20;
const MOST: usize = 1 << 22;

/// The first object of every pickle: the empty tuple, which all share.
const EMPTY: Value = Value::Node(0);

/// Reads a pickle of protocol 2 to 5.
pub(super) fn parse(bytes: &[u8]) -> Result<Pickle<'_>, Problem> {
    let mut machine = Machine::new(bytes);
    let mut at = 0;
    let result = machine.run(&mut at);
    result.map_err(|Problem { expected, actual }| {
        Problem::new(expected, format_args!("{actual} (data.pkl, byte {at})"))
    })
}

/// The stack machine that a pickle is written for.
struct Machine<'p> {
    input: Input<'p>,
    stack: Vec<Value>,
    /// How high the stack was at each mark.
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    nodes: Vec<Node>,
    texts: Vec<&'p str>,
    len: usize,
}

impl<'p> Machine<'p> {
    fn new(bytes: &'p [u8]) -> Self {
        Self {
            input: Input::new(bytes),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            nodes: vec![Node::Tuple(Box::default())],
            texts: Vec::new(),
            len: bytes.len(),
        }
    }

    /// Runs to the end; `at` is where an instruction begins.
    fn run(&mut self, at: &mut usize) -> Result<Pickle<'p>, Problem> {
        let start = self.input.array()?;
        if !matches!(start, [0x80, 2..=5]) {
            let actual = format_args!("`{}`", start.escape_ascii());
            return Err(Problem::new("a pickle of protocol 2 to 5", actual));
        }
        for _ in 0..LONGEST {
            *at = self.input.at();
            let code = self.input.u8()?;
            if code == b'.' {
                let top = self.pop()?;
                let (nodes, texts) = (take(&mut self.nodes), take(&mut self.texts));
                return Ok(Pickle { nodes, texts, top, len: self.len });
            }
            if let Some(value) = self.plain(code)? {
                self.stack.push(value);
            } else {
                self.step(code)?;
            }
            if self.stack.len().max(self.marks.len()) > HIGHEST {
                return Err(Problem::new(format_args!("a stack of at most {HIGHEST}"), "more"));
            }
        }
        Err(Problem::new(format_args!("at most {LONGEST} instructions"), "more"))
    }

    /// The value that an instruction spells out, if it does that.
    fn plain(&mut self, code: u8) -> Result<Option<Value>, Problem> {
        let input = &mut self.input;
        Ok(Some(match code {
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'K' => Value::Int(input.u8()?.into()),
            b'M' => Value::Int(input.u16()?.into()),
            b'J' => Value::Int(input.i32()?.into()),
            0x8a => integer(input.counted(1)?),
            0x8b => integer(input.counted(4)?),
            b'G' => {
                input.take(8)?;
                Value::Other(&"a float")
            }
            // Text; the last two are Python 2's.
            0x8c => self.text(1)?,
            b'X' => self.text(4)?,
            0x8d => self.text(8)?,
            b'U' => self.text(1)?,
            b'T' => self.text(4)?,
            b'C' => self.bytes(1)?,
            b'B' => self.bytes(4)?,
            0x8e | 0x96 => self.bytes(8)?,
            0x8f => Value::Other(&"a set"),
            b']' => self.node(Node::List(Vec::new()))?,
            b'}' => self.node(Node::Dict(Vec::new()))?,
            b')' => EMPTY,
            b'c' => {
                let (module, name) = (self.input.line()?, self.input.line()?);
                let (module, name) = (self.keep(module), self.keep(name));
                self.node(Node::Global(module, name))?
            }
            b'h' => {
                let index = self.input.u8()?;
                self.recall(index.into())?
            }
            b'j' => {
                let index = self.input.u32()?;
                self.recall(index)?
            }
            _ => return Ok(None),
        }))
    }

    /// An instruction that works on the stack.
    fn step(&mut self, code: u8) -> Result<(), Problem> {
        match code {
            // A frame is a hint to read ahead.
            0x95 => drop(self.input.take(8)?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.pop_to_mark()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            b'q' => {
                let index = self.input.u8()?.into();
                self.memorize(index)?;
            }
            b'r' => {
                let index = self.input.u32()?;
                self.memorize(index)?;
            }
            0x94 => self.memorize(self.memo.len() as u32)?,
            0x85..=0x87 => {
                let count = usize::from(code - 0x84);
                let floor = self.floor();
                let Some(start) = self.stack.len().checked_sub(count).filter(|&s| s >= floor)
                else {
                    return Err(underflow());
                };
                let values = self.stack.drain(start..).collect();
                self.push_node(Node::Tuple(values))?;
            }
            b't' => {
                let values = self.pop_to_mark()?.into();
                self.push_node(Node::Tuple(values))?;
            }
            b'a' => {
                let value = self.pop()?;
                self.append(&[value])?;
            }
            b'e' => {
                let values = self.pop_to_mark()?;
                self.append(&values)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let values = self.pop_to_mark()?;
                self.set(&values)?;
            }
            // Into a set, of which nothing is kept.
            0x90 => {
                self.pop_to_mark()?;
                self.top()?;
            }
            0x91 => {
                self.pop_to_mark()?;
                self.stack.push(Value::Other(&"a frozenset"));
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Value::Text(module), Value::Text(name)) = (module, name) else {
                    return Err(Problem::new("the name of a global", "no text"));
                };
                self.push_node(Node::Global(module, name))?;
            }
            b'Q' => {
                let name = self.pop()?;
                self.push_node(Node::Persistent(name))?;
            }
            // A call and a new object: the same without a Python to make them.
            b'R' | 0x81 => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                self.call(function, arguments)?;
            }
            0x92 => {
                let (_keywords, arguments, class) = (self.pop()?, self.pop()?, self.pop()?);
                self.call(class, arguments)?;
            }
            // An object's attributes: no part of a dict's pairs or of a tensor's numbers.
            b'b' => {
                self.pop()?;
                self.top()?;
            }
            _ => {
                let actual = format_args!("`{}`", code.escape_ascii());
                return Err(Problem::new("an instruction that torch.save writes", actual));
            }
        }
        Ok(())
    }

    /// A call: dicts are made, as what follows fills them; of all else only the call is kept.
    fn call(&mut self, function: Value, arguments: Value) -> Result<(), Problem> {
        let (Value::Node(called), Value::Node(given)) = (function, arguments) else {
            return Err(Problem::new("a function and its arguments", "a plain value"));
        };
        let global = match self.nodes[called as usize] {
            Node::Global(module, name) => (self.texts[module as usize], self.texts[name as usize]),
            _ => ("", ""),
        };
        let made = match global {
            ("collections", "OrderedDict") if arguments != EMPTY => {
                return Err(Problem::new("an OrderedDict without arguments", "some"));
            }
            ("collections", "OrderedDict" | "defaultdict") => Node::Dict(Vec::new()),
            _ => Node::Call(called, given),
        };
        self.push_node(made)
    }

    fn append(&mut self, values: &[Value]) -> Result<(), Problem> {
        match self.top_node()? {
            Some(Node::List(list)) => list.extend(values),
            // What an object of a class does with it is unknown.
            Some(Node::Call(..)) => {}
            _ => return Err(Problem::new("a list to append to", "something else")),
        }
        Ok(())
    }

    fn set(&mut self, values: &[Value]) -> Result<(), Problem> {
        let (pairs, rest) = values.as_chunks();
        if !rest.is_empty() {
            return Err(Problem::new("a value for each key", "one key more"));
        }
        match self.top_node()? {
            Some(Node::Dict(dict)) => dict.extend(pairs.iter().map(|&[key, value]| (key, value))),
            Some(Node::Call(..)) => {}
            _ => return Err(Problem::new("a dict to set keys of", "something else")),
        }
        Ok(())
    }

    /// A text, after its length of so many bytes.
    fn text(&mut self, width: usize) -> Result<Value, Problem> {
        let bytes = self.input.counted(width)?;
        // Python's text may hold halves of surrogate pairs, which are no text here.
        let text = str::from_utf8(bytes);
        Ok(text
            .map_or(Value::Other(&"text that is not UTF-8"), |text| Value::Text(self.keep(text))))
    }

    fn bytes(&mut self, width: usize) -> Result<Value, Problem> {
        self.input.counted(width)?;
        Ok(Value::Other(&"bytes"))
    }

    /// Where a text is kept. There are fewer than instructions, so fewer than 2³².
    fn keep(&mut self, text: &'p str) -> u32 {
        self.texts.push(text);
        self.texts.len() as u32 - 1
    }

    fn node(&mut self, node: Node) -> Result<Value, Problem> {
        if self.nodes.len() == MOST {
            return Err(Problem::new(format_args!("at most {MOST} objects"), "more"));
        }
        let value = Value::Node(self.nodes.len() as u32);
        self.nodes.push(node);
        Ok(value)
    }

    fn push_node(&mut self, node: Node) -> Result<(), Problem> {
        let value = self.node(node)?;
        self.stack.push(value);
        Ok(())
    }

    fn recall(&self, index: u32) -> Result<Value, Problem> {
        let value = self.memo.get(&index).copied();
        value.ok_or_else(|| Problem::new(format_args!("a memo {index}"), "none"))
    }

    fn memorize(&mut self, index: u32) -> Result<(), Problem> {
        self.memo.insert(index, self.top()?);
        if self.memo.len() > MOST {
            return Err(Problem::new(format_args!("at most {MOST} memos"), "more"));
        }
        Ok(())
    }

    /// How low the stack may be popped: to the last mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Value, Problem> {
        if self.stack.len() <= self.floor() {
            return Err(underflow());
        }
        self.stack.pop().ok_or_else(underflow)
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Value>, Problem> {
        let mark = self.marks.pop().ok_or_else(|| Problem::new("a mark", "none"))?;
        Ok(self.stack.split_off(mark))
    }

    fn top(&self) -> Result<Value, Problem> {
        if self.stack.len() <= self.floor() {
            return Err(underflow());
        }
        self.stack.last().copied().ok_or_else(underflow)
    }

    fn top_node(&mut self) -> Result<Option<&mut Node>, Problem> {
        Ok(match self.top()? {
            Value::Node(index) => self.nodes.get_mut(index as usize),
            _ => None,
        })
    }
}

fn underflow() -> Problem {
    Problem::new("a value on the stack", "none")
}

/// Little-endian, in two's complement, of any length.
fn integer(bytes: &[u8]) -> Value {
    let mut wide = match bytes.last() {
        Some(0x80..) => [0xff; 8],
        _ => [0; 8],
    };
    match wide.get_mut(..bytes.len()) {
        Some(low) => low.copy_from_slice(bytes),
        None => return Value::Other(&"an integer of more than 64 bits"),
    }
    Value::Int(i64::from_le_bytes(wide))
}
