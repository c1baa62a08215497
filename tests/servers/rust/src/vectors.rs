//! For each answer on standard input (the parts of a message), what adk-rs reads in it; and for each request, the
//! request as adk-rs makes it.

use std::io::stdin;

use adk_rs::core::tool_confirmation::{ConfirmationPreprocessor, ConfirmationRequest};
use adk_rs::genai_types::Part;
use serde_json::{Value, json};

pub fn main() {
    for line in stdin().lines() {
        let asked: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let told = match asked.get("parts") {
            Some(parts) => match serde_json::from_value::<Vec<Part>>(parts.clone()) {
                Ok(parts) => {
                    let read = ConfirmationPreprocessor::new().process_event(&crate::user_event(parts)).responses;
                    json!({"answers": read.into_iter().collect::<Vec<_>>()})
                }
                Err(error) => json!({"error": error.to_string()}),
            },
            None => match serde_json::from_value::<ConfirmationRequest>(asked) {
                Ok(request) => json!({"request": request}),
                Err(error) => json!({"error": error.to_string()}),
            },
        };
        println!("{told}");
    }
}
