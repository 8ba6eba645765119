//! Makes every call of a plan with the client that openapi-generator has generated, and prints what each has come to.

mod calls;

use gateway::apis::{configuration::Configuration, Error};
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use serde_json::{json, Map, Value};
use std::path::PathBuf;

#[derive(Deserialize)]
struct Plan {
    url: String,
    key: String,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    operation_id: String,
    path: Map<String, Value>,
    query: Map<String, Value>,
    header: Map<String, Value>,
    body: Option<Value>,
    files: Option<Vec<String>>,
}

/// A name without what the generator changes in it: `type` is `r#type` in Rust, `Idempotency-Key` is `idempotency_key`.
fn plain(name: &str) -> String {
    name.trim_start_matches("r#").replace(['_', '-'], "").to_lowercase()
}

fn field<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.iter().find(|(key, _)| plain(key) == plain(name)).map(|(_, value)| value)
}

fn read<T: DeserializeOwned>(value: Option<&Value>) -> Result<T, String> {
    serde_json::from_value(value.cloned().unwrap_or_default()).map_err(|error| error.to_string())
}

impl Call {
    /// The name of the generated function: `list_deliveries` for `listDeliveries`.
    pub fn function(&self) -> String {
        let lower = |letter: char| match letter.is_uppercase() {
            true => format!("_{}", letter.to_lowercase()),
            false => letter.to_string(),
        };
        self.operation_id.chars().map(lower).collect()
    }

    /// The value of a parameter: of the path, the query, a header, or of a form.
    fn given(&self, name: &str) -> Option<&Value> {
        let form = self.files.as_ref().and(self.body.as_ref()).and_then(Value::as_object);
        let places = [Some(&self.path), Some(&self.query), Some(&self.header), form];
        places.into_iter().flatten().find_map(|fields| field(fields, name))
    }

    pub fn parameter<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        read(self.given(name))
    }

    /// A parameter, or the whole body.
    pub fn model<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        read(self.given(name).or(self.body.as_ref()))
    }

    /// The files of a field of a form.
    pub fn files(&self, name: &str) -> Result<Vec<PathBuf>, String> {
        let texts = match self.given(name) {
            None => vec![],
            Some(Value::Array(items)) => items.clone(),
            Some(value) => vec![value.clone()],
        };
        let write = |(index, text): (usize, &Value)| {
            let path = PathBuf::from(format!("{}-{name}-{index}.png", self.operation_id));
            std::fs::write(&path, text.as_str().unwrap_or_default()).map_err(|error| error.to_string())?;
            Ok(path)
        };
        texts.iter().enumerate().map(write).collect()
    }
}

/// What a call has come to, as JSON.
pub fn parsed<T: Serialize, E>(result: Result<T, Error<E>>) -> Result<Value, String> {
    match result {
        Ok(value) => serde_json::to_value(value).map_err(|error| error.to_string()),
        Err(Error::ResponseError(answer)) => Err(format!("{}: {}", answer.status, answer.content)),
        Err(error) => Err(error.to_string()),
    }
}

fn main() {
    let plan: Plan = serde_json::from_reader(std::io::stdin()).expect("a plan");
    let mut configuration = Configuration::new();
    configuration.base_path = plan.url;
    configuration.bearer_access_token = Some(plan.key);
    for call in &plan.calls {
        let outcome = match calls::make(&configuration, call) {
            Ok(parsed) => json!({ "operationId": call.operation_id, "parsed": parsed }),
            Err(error) => json!({ "operationId": call.operation_id, "error": error }),
        };
        println!("{outcome}");
    }
}
