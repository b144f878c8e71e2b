//! Fields that a user wants in every request, laid over the body that is about to be sent (CRED-9). Which fields may be
//! named is checked where they are configured.

use serde_json::{Map, Value};

/// The field whose own fields stand in the request beside the others.
pub const EXTRA_BODY: &str = "extra_body";

/// The body with the fields laid over it, each as a whole. A body that is no object goes as it is.
pub(super) fn laid_over(body: Vec<u8>, fields: &Map<String, Value>) -> Vec<u8> {
    if fields.is_empty() {
        return body;
    }
    let Ok(Value::Object(mut request)) = serde_json::from_slice(&body) else { return body };
    let extra = fields.get(EXTRA_BODY).and_then(Value::as_object).into_iter().flatten();
    let plain = fields.iter().filter(|(name, _)| *name != EXTRA_BODY);
    for (name, value) in plain.chain(extra) {
        request.insert(name.clone(), value.clone());
    }
    Value::Object(request).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(fields: Value, expected: Value) {
        let Value::Object(fields) = fields else { panic!("an object") };
        let body = laid_over(br#"{"model":"m","options":{"num_ctx":5,"seed":1}}"#.to_vec(), &fields);
        assert_eq!(serde_json::from_slice::<Value>(&body).expect("JSON"), expected);
    }

    #[test]
    fn cred_09_fields_are_laid_over_a_request_and_those_of_extra_body_stand_beside_them() {
        check(json!({}), json!({"model": "m", "options": {"num_ctx": 5, "seed": 1}}));
        check(
            json!({"temperature": 0.5, "options": {"seed": 2}}),
            json!({"model": "m", "options": {"seed": 2}, "temperature": 0.5}),
        );
        check(
            json!({"extra_body": {"provider": {"order": ["a"]}}}),
            json!({"model": "m", "options": {"num_ctx": 5, "seed": 1}, "provider": {"order": ["a"]}}),
        );
    }
}
