import type { Issue, JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { isSchema } from './keywords/value.ts'
import { abridgeMessage, abridgePath, join } from './node.ts'

/** Any schema library's schema: Standard Schema v1, and its JSON Schema extension where the vendor has it. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
    readonly jsonSchema?: Readonly<Record<'input' | 'output', (options: { readonly target: string }) => unknown>>
  }
}

type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] }

interface StandardIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** The vendor's output value, or the issues. */
export type Validated<Output> = { readonly value: Output } | { readonly issues: Issue[] }

/** Whether a value is a schema of a library that speaks Standard Schema v1; JSON never is, because it holds no function. */
export function isStandardSchema(value: unknown): value is StandardSchema {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return false
  if (!('~standard' in value)) return false
  const standard = value['~standard']
  if (!isObject(standard)) return false
  const { version, vendor, validate } = standard
  return version === 1 && typeof vendor === 'string' && typeof validate === 'function'
}

/** The JSON Schema a vendor gives for one side; undefined when it offers none or cannot express this schema. */
export function jsonSchemaOf(standard: StandardSchema, side: 'input' | 'output'): JsonSchema | undefined {
  const convert = standard['~standard'].jsonSchema?.[side]
  if (convert === undefined) return undefined
  try {
    const schema = convert({ target: 'draft-2020-12' })
    return isSchema(schema) ? schema : undefined
  } catch {
    return undefined
  }
}

/** Validates with the vendor's own code; synchronous when the vendor is. */
export function validateStandard<Output>(
  standard: StandardSchema<unknown, Output>,
  value: unknown,
): Validated<Output> | Promise<Validated<Output>> {
  const result = standard['~standard'].validate(value)
  return result instanceof Promise ? result.then(toValidated) : toValidated(result)
}

function toValidated<Output>(result: StandardResult<Output>): Validated<Output> {
  if (result.issues === undefined) return { value: result.value }
  return {
    issues: result.issues.map(({ message, path }) => ({
      path: abridgePath(toPointer(path ?? [])),
      message: abridgeMessage(message),
    })),
  }
}

function toPointer(path: NonNullable<StandardIssue['path']>): string {
  return path.reduce<string>((at, part) => join(at, String(typeof part === 'object' ? part.key : part)), '')
}

interface Names {
  readonly string: string
  readonly number: number
  readonly integer: number
  readonly boolean: boolean
  readonly null: null
}

/** The type a schema written `as const` describes: plain keywords only, everything else is unknown. */
export type FromSchema<S> = S extends { readonly const: infer Value }
  ? Value
  : S extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : S extends { readonly type: readonly (infer Name)[] }
      ? Name extends string
        ? OfType<Name, S>
        : unknown
      : S extends { readonly type: infer Name }
        ? OfType<Name, S>
        : unknown

type OfType<Name, S> = Name extends keyof Names
  ? Names[Name]
  : Name extends 'array'
    ? S extends { readonly items: infer Item }
      ? FromSchema<Item>[]
      : unknown[]
    : Name extends 'object'
      ? S extends { readonly properties: infer Properties }
        ? Flat<Members<Properties, RequiredOf<S>>>
        : { [name: string]: unknown }
      : unknown

type RequiredOf<S> = S extends { readonly required: readonly (infer Name)[] } ? Name : never

type Members<P, R> = { -readonly [Name in keyof P as Name extends R ? Name : never]: FromSchema<P[Name]> } & {
  -readonly [Name in keyof P as Name extends R ? never : Name]?: FromSchema<P[Name]>
}

type Flat<T> = { [Name in keyof T]: T[Name] }

/** The input type of a Standard Schema, and its output type. */
export type InferInput<S extends StandardSchema> = NonNullable<S['~standard']['types']>['input']
export type InferOutput<S extends StandardSchema> = NonNullable<S['~standard']['types']>['output']
