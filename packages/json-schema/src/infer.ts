import type { StandardSchema } from './standard.ts'

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

/** What a Standard Schema accepts, and what it returns. */
export type InferInput<S extends StandardSchema> = NonNullable<S['~standard']['types']>['input']
export type InferOutput<S extends StandardSchema> = NonNullable<S['~standard']['types']>['output']
