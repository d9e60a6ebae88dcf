import type { ToolError } from '@gantry/contract'

/** Tools that backends bring, as far as looking one up is concerned. */
export interface Sources {
  /** Resolves when the backend whose namespace an id names has been asked for its tools; undefined when it was. */
  pending(id: string): Promise<void> | undefined
  /** Why a tool that its backend offers may not be called, or why the backend could not be asked. */
  refusal(id: string): ToolError | undefined
}
