package schema

// For the tests.
var IsPlainProperty = isPlainProperty
