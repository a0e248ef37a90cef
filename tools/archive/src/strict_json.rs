//! Strict JSON: what two readers could read differently is refused, as keys given twice and
//! integers beyond 64 bits.

use crate::refusal::{Refusal, Result, refuse, shown};

/// Deeper than any exported program that PyTorch writes: subgraphs nest ten levels each.
const DEEPEST: usize = 200;

/// A JSON value. Objects keep their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without point and exponent.
    Int(i64),
    /// Another number; Python also writes `NaN`, `Infinity` and `-Infinity`.
    Float(f64),
    /// A string.
    Text(String),
    /// `[…]`
    List(Vec<Json>),
    /// `{…}`; no key occurs twice.
    Object(Vec<(String, Json)>),
}

static NULL: Json = Json::Null;

impl Json {
    /// Reads a text that is one value.
    ///
    /// # Errors
    /// The text is no JSON, or JSON that two readers could read differently.
    pub fn parse(bytes: &[u8]) -> Result<Json> {
        let text = std::str::from_utf8(bytes).map_err(|_| Refusal::new("JSON is not UTF-8"))?;
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.blanks();
        if reader.at < text.len() { reader.fail("text after the JSON value") } else { Ok(value) }
    }

    /// The value of a key; null if there is none.
    pub fn get(&self, key: &str) -> &Json {
        let found = self.fields().iter().find(|(name, _)| name == key);
        found.map_or(&NULL, |(_, value)| value)
    }

    /// The fields of an object; none of anything else.
    pub fn fields(&self) -> &[(String, Json)] {
        if let Json::Object(fields) = self { fields } else { &[] }
    }

    /// The items of a list; none of anything else.
    pub fn items(&self) -> &[Json] {
        if let Json::List(items) = self { items } else { &[] }
    }

    /// The string, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Json::Text(text) = self { Some(text) } else { None }
    }

    /// The integer, if it is one.
    pub fn int(&self) -> Option<i64> {
        if let Json::Int(number) = self { Some(*number) } else { None }
    }

    /// Whether it is `true`.
    pub fn is_true(&self) -> bool {
        *self == Json::Bool(true)
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        *self == Json::Null
    }

    /// The only tag of a union whose value is not null, as exported programs write unions:
    /// `{"as_tensor": {…}}`. 2.2 writes all other tags, too, with null.
    ///
    /// # Errors
    /// No tag is set, or several are.
    pub fn union(&self, what: &str) -> Result<(&str, &Json)> {
        let fields = self.fields();
        let mut set = fields.iter().filter(|(_, value)| !value.is_null());
        match (set.next(), set.next()) {
            (Some((tag, value)), None) => Ok((tag, value)),
            (None, _) if fields.iter().any(|(tag, _)| tag == "as_none") => Ok(("as_none", &NULL)),
            (None, _) => refuse(format!("{what} is a union with no tag")),
            _ => refuse(format!("{what} is a union with several tags")),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn fail<T>(&self, what: &str) -> Result<T> {
        refuse(format!("{what} at byte {}", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// The next byte after blanks, which is read.
    fn next(&mut self) -> Result<u8> {
        self.blanks();
        let Some(byte) = self.peek() else { return self.fail("JSON ends early") };
        self.at += 1;
        Ok(byte)
    }

    fn value(&mut self, depth: usize) -> Result<Json> {
        if depth > DEEPEST {
            return self.fail("JSON is nested too deep");
        }
        self.blanks();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            None => self.fail("JSON ends early"),
            _ => self.word(),
        }
    }

    /// `NaN` and `Infinity` are Python's extension.
    fn word(&mut self) -> Result<Json> {
        let words = [
            ("null", Json::Null),
            ("true", Json::Bool(true)),
            ("false", Json::Bool(false)),
            ("NaN", Json::Float(f64::NAN)),
            ("Infinity", Json::Float(f64::INFINITY)),
        ];
        for (word, value) in words {
            if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.fail("JSON has an unknown word")
    }

    fn list(&mut self, depth: usize) -> Result<Json> {
        self.at += 1;
        let mut items = Vec::new();
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            match self.next()? {
                b',' => {}
                b']' => return Ok(Json::List(items)),
                _ => return self.fail("expected `,` or `]`"),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json> {
        self.at += 1;
        let mut fields = Vec::new();
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(fields));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return self.fail("expected a JSON key");
            }
            let key = self.string()?;
            if self.next()? != b':' {
                return self.fail("expected `:`");
            }
            fields.push((key, self.value(depth + 1)?));
            match self.next()? {
                b',' => {}
                b'}' => return unique(fields),
                _ => return self.fail("expected `,` or `}`"),
            }
        }
    }

    fn string(&mut self) -> Result<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find(['"', '\\']) else { return self.fail("JSON ends early") };
            if rest[..end].contains(|c: char| c < ' ') {
                return self.fail("JSON has a control character in a string");
            }
            text.push_str(&rest[..end]);
            self.at += end + 1;
            if rest.as_bytes()[end] == b'"' {
                return Ok(text);
            }
            text.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Result<char> {
        let Some(byte) = self.peek() else { return self.fail("JSON ends early") };
        self.at += 1;
        Ok(match byte {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'"' | b'\\' | b'/' => char::from(byte),
            b'u' => return self.code_point(),
            _ => return self.fail("JSON has an unknown escape"),
        })
    }

    fn code_point(&mut self) -> Result<char> {
        let high = self.hex()?;
        let code = if (0xd800..0xdc00).contains(&high) && self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            let low = self.hex()?;
            if !(0xdc00..0xe000).contains(&low) {
                return self.fail("JSON has half a surrogate pair");
            }
            0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
        } else {
            high
        };
        char::from_u32(code).map_or_else(|| self.fail("JSON has half a surrogate pair"), Ok)
    }

    fn hex(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(number) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            return self.fail("JSON has a malformed escape");
        };
        self.at += 4;
        Ok(number)
    }

    fn number(&mut self) -> Result<Json> {
        let rest = &self.text[self.at..];
        if rest.starts_with("-Infinity") {
            self.at += "-Infinity".len();
            return Ok(Json::Float(f64::NEG_INFINITY));
        }
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')).unwrap_or(rest.len());
        let word = &rest[..end];
        let digits = word.trim_start_matches('-');
        if digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit() {
            return self.fail("JSON has a number with a leading zero");
        }
        let value = if digits.bytes().all(|b| b.is_ascii_digit()) {
            match word.parse() {
                Ok(number) => Json::Int(number),
                Err(_) => return self.fail("integer over 64 bits"),
            }
        } else {
            match word.parse::<f64>() {
                Ok(number) if number.is_finite() => Json::Float(number),
                _ => return self.fail("JSON has a malformed number"),
            }
        };
        self.at += end;
        Ok(value)
    }
}

/// An object whose keys all differ.
fn unique(fields: Vec<(String, Json)>) -> Result<Json> {
    let mut names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => refuse(format!("JSON key {} given twice", shown(pair[0]))),
        None => Ok(Json::Object(fields)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        let value = Json::parse(br#" {"a": [1, -2.5, "x\u00e9\ud83d\ude00\n"], "b": {"c": null}} "#).expect("JSON");
        assert_eq!(value.get("a").items()[2].text(), Some("x\u{e9}\u{1f600}\n"));
        assert_eq!((value.get("a").items()[0].int(), value.get("b").get("c")), (Some(1), &Json::Null));
    }

    #[test]
    fn ambiguous_json_is_refused() {
        let reason = |text: &str| Json::parse(text.as_bytes()).expect_err(text).reason;
        assert_eq!(reason(r#"{"a": 1, "a": 2}"#), "JSON key `a` given twice");
        assert_eq!(reason("[9223372036854775808]"), "integer over 64 bits at byte 1");
        assert_eq!(reason("[1, 2"), "JSON ends early at byte 5");
        assert_eq!(reason("[1] 2"), "text after the JSON value at byte 4");
        assert_eq!(reason("01"), "JSON has a number with a leading zero at byte 0");
        assert!(reason(&"[".repeat(100_000)).contains("too deep"));
        assert_eq!(Json::parse(b"\"\xff\"").expect_err("UTF-8").reason, "JSON is not UTF-8");
    }
}
