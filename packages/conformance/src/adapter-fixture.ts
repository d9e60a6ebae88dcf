import type { Adapter, AdapterOptions } from '@gantry/adapters/internal/adapter'
import { ToolError } from '@gantry/contract'

/** How a suite talks to one format as its model and its framework would. */
export interface AdapterFixture<T, R> {
  readonly create: (options?: AdapterOptions) => Adapter<T, R>
  /** The names in a list of tools. */
  readonly names: (tools: T) => readonly string[]
  /** A message of the model that asks for calls. */
  readonly message: (calls: readonly { id: string; name: string; args: unknown }[]) => unknown
  /** What a model reads of a result; `isError` is absent where the format cannot say it. */
  readonly readResult: (message: R) => { id?: string | undefined; isError?: boolean; text: string; images: number }
  /** The arguments of a call are JSON text in this format. */
  readonly argsAreText: boolean
  /** A message has one call at most. */
  readonly oneCall?: boolean
  /** Calls have ids in this format. */
  readonly hasIds: boolean
  readonly holdsImages: boolean
}

/** Whether what was thrown is a ToolError of this code. */
export function isError(code: string): (error: unknown) => boolean {
  return (error) => ToolError.is(error) && error.code === code
}
