export type { FromSchema, InferInput, InferOutput } from './infer.ts'
export { defaultLimits, type SchemaLimits } from './limits.ts'
export { isStandardSchema, jsonSchemaOf, type StandardSchema, type Validated, validateStandard } from './standard.ts'
export { type CompileOptions, checkSchema, compileSchema, type Validator } from './validator.ts'
