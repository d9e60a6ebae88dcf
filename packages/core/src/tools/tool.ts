import { type BackendBinding, type JsonSchema, type Tool, ToolError } from '@gantry/contract'
import {
  type FromSchema,
  type InferOutput,
  isStandardSchema,
  jsonSchemaOf,
  type StandardSchema,
} from '@gantry/json-schema'
import type { ToolContext } from '../backends/backend.ts'
import type { LocalFunction } from '../backends/local.ts'
import type { LookupFunction } from '../pipeline/lookup.ts'

/** A JSON Schema, or any Standard Schema (zod, valibot, typebox …). */
export type ToolSchema = boolean | object

/** The arguments of `run` for a schema: the output type of a Standard Schema, the type of a literal JSON Schema, or unknown members. */
export type ArgsOf<S> = S extends StandardSchema ? InferOutput<S> : FromSchema<S>

/** The definition of a tool. Omitted members have a safe default. */
export interface ToolDefinition<S extends ToolSchema>
  extends Omit<Tool, 'version' | 'inputSchema' | 'outputSchema' | 'backends' | 'effect'> {
  /** `1.0.0` when absent. */
  readonly version?: string
  readonly inputSchema: S
  readonly outputSchema?: ToolSchema
  /** `once` when absent: never run twice, whatever happens. */
  readonly effect?: Tool['effect']
  /** Where the tool runs, if not in this process. */
  readonly backends?: readonly BackendBinding[]
  /** The tool itself: sync, async, or an async generator whose values are chunks and whose return value is the output. */
  readonly run?: (args: ArgsOf<S>, context: ToolContext) => unknown
  /**
   * For the effect `reconcilable`: looks up the outcome of the call with this idempotency key. `{ found: false }` lets the
   * tool run again, so return it only when that call had and can have no effect; return `undefined` when that is unknown.
   */
  readonly lookup?: LookupFunction
}

/** A tool for an executor: its catalog data, and the parts that exist only in this process. */
export interface DefinedTool {
  readonly tool: Tool
  readonly run: LocalFunction | undefined
  readonly input: StandardSchema | undefined
  readonly output: StandardSchema | undefined
  readonly lookup: LookupFunction | undefined
}

/** Defines a tool. The executor that registers it validates it. */
export function defineTool<const S extends ToolSchema>(definition: ToolDefinition<S>): DefinedTool {
  if (typeof definition !== 'object' || definition === null) {
    throw new ToolError('TOOL_INVALID', 'defineTool takes an object with namespace, name, description and inputSchema.')
  }
  const { run, lookup, inputSchema, outputSchema, backends, version, effect, ...rest } = definition
  if (run !== undefined && typeof run !== 'function') throw invalid('/run', 'must be a function')
  if (run === undefined && backends === undefined) throw invalid('/run', 'is missing, and so is /backends')
  if (lookup !== undefined && typeof lookup !== 'function') throw invalid('/lookup', 'must be a function')
  if (lookup !== undefined && effect !== 'reconcilable') {
    throw invalid('/lookup', "is asked only of a tool whose effect is 'reconcilable'")
  }
  return Object.freeze({
    tool: {
      ...rest,
      version: version ?? '1.0.0',
      effect: effect ?? 'once',
      inputSchema: asJsonSchema(inputSchema, 'input'),
      ...(outputSchema === undefined ? {} : { outputSchema: asJsonSchema(outputSchema, 'output') }),
      backends: run === undefined ? (backends ?? []) : [{ kind: 'local' }, ...(backends ?? [])],
    },
    run,
    input: isStandardSchema(inputSchema) ? inputSchema : undefined,
    output: isStandardSchema(outputSchema) ? outputSchema : undefined,
    lookup,
  })
}

/** The JSON Schema for the catalog. A Standard Schema that cannot be converted is listed as any object and validates by itself. */
function asJsonSchema(schema: ToolSchema, side: 'input' | 'output'): JsonSchema {
  if (!isStandardSchema(schema)) return schema as JsonSchema
  return jsonSchemaOf(schema, side) ?? (side === 'input' ? { type: 'object' } : true)
}

function invalid(path: string, message: string): ToolError {
  return new ToolError('TOOL_INVALID', `Invalid tool definition: ${path} ${message}.`, {
    details: { issues: [{ path, message }] },
  })
}
