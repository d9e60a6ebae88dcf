export { defaultLimits, type SchemaLimits } from './registry.ts'
export type { FromSchema, InferInput, InferOutput } from './standard.ts'
export { isStandardSchema, jsonSchemaOf, type StandardSchema, type Validated, validateStandard } from './standard.ts'
export { type CompileOptions, checkSchema, compileSchema, type Validator } from './validator.ts'
