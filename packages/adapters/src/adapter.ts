import type { JsonObject, Result, Tool, ToolError } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core/internal/catalogs/catalog'
import { flag, type Member, whole } from '@gantry/core/internal/options/option'
import type { Names } from './names.ts'

/** A part of a tool that a format cannot represent, and how it was changed. */
export type Done =
  /** It is gone. */
  | 'dropped'
  /** The format now accepts more than the tool does; the tool's own check still refuses it. */
  | 'widened'
  /** The format now accepts less than the tool does. */
  | 'narrowed'
  /** It is text in its description. */
  | 'described'
  /** It is said in the format's own words. */
  | 'rewritten'
  /** It was left as it is, although the format may refuse it or a person cannot see it. */
  | 'kept'

/** One part of a tool that did not go over as it was. */
export interface Loss {
  /** Id of the tool, or its name in the format on the way back. */
  readonly tool: string
  /** JSON Pointer into the tool. */
  readonly path: string
  readonly keyword: string
  readonly done: Done
  /** A sentence for a person. */
  readonly message: string
}

/** A catalog's tools in a format, the way back from their names, and everything that the format could not hold. */
export interface AdaptedTools<T> {
  readonly tools: T
  readonly names: Names
  readonly warnings: readonly Loss[]
}

/** A tool as a foreign format describes it: with `run` or `backends` added, it is what `defineTool` takes. */
export type ForeignTool = Pick<
  Tool,
  'namespace' | 'name' | 'version' | 'description' | 'title' | 'inputSchema' | 'outputSchema' | 'annotations' | 'icons'
>

export interface ReadTools {
  readonly tools: readonly ForeignTool[]
  readonly warnings: readonly Loss[]
}

export interface ReadOptions {
  /** Where tools go that the names do not know; `foreign` when absent. */
  readonly namespace?: string
  /** The names that the tools were written with; with them the way back is exact. */
  readonly names?: Names
}

/** A call that the model asks for. Pass `schemaDigest` on, so that a tool that changed meanwhile is not called blindly. */
export interface AdapterCall {
  readonly ok: true
  /**
   * The model's own id for the call, when the format has one: unique within its message only.
   * It is no `callId` of a run, because tools may use that one as an idempotency key.
   */
  readonly callId?: string
  /** The tool's name in the format. */
  readonly name: string
  /** `namespace:name:version` of the tool that the model was shown. */
  readonly tool: string
  readonly args: JsonObject
  readonly schemaDigest: string
}

/** A call that cannot be made; its error goes back to the model as the call's result. */
export interface RefusedCall {
  readonly ok: false
  readonly callId?: string
  readonly name: string
  readonly error: ToolError
}

/**
 * Tools, calls and results in one format of a model or a framework: `T` is the format's list of tools, `R` its
 * message with the result of one call.
 * - Concurrency: an adapter holds no state; the way back from names is in what `tools` returns.
 * - Ownership: everything returned is the caller's own copy and plain data, but for the functions of a framework's tools.
 * - Errors: ToolError only, whatever the message. A message that is not understood is PAYLOAD_INVALID and gives no call
 *   at all; a call that is understood but cannot be made is a RefusedCall, so that the model receives the reason.
 * - Nothing is run, fetched or evaluated. Descriptions are data: characters that a person cannot see are taken out.
 */
export interface Adapter<T = unknown, R = unknown> {
  readonly format: string
  /** Tools as the format describes them; a repeated entry counts once. */
  tools(entries: Iterable<CatalogEntry>): AdaptedTools<T>
  /** Tools of the format as definitions. Throws TOOL_INVALID for one that cannot be a tool. */
  read(tools: unknown, options?: ReadOptions): ReadTools
  /** The calls in a message of the model, in its order; none when it asks for none. */
  calls(message: unknown, names: Names): readonly (AdapterCall | RefusedCall)[]
  /** The result of one call, or the reason why there is none, as the format's message to the model. */
  result(call: AdapterCall | RefusedCall, outcome: Result | ToolError): R
}

/** Options that every format takes. */
export interface AdapterOptions {
  /** Longest text of a result, in characters; the middle of a longer one is left out. 50,000 when absent. */
  readonly maxChars?: number
  /** Takes characters that a person cannot see out of descriptions; on unless false. */
  readonly clean?: boolean
}

export const defaultMaxChars = 50_000

/** A note on what was left out needs some space itself. */
const leastChars = 200

/** The members of every format's options, for `optionsCheck`. */
export const adapterMembers: { readonly [Key in keyof Required<AdapterOptions>]: Member } = {
  maxChars: whole(leastChars),
  clean: flag,
}
