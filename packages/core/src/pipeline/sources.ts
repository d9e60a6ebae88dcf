import type { ToolError } from '@gantry/contract'

/** Tools that backends bring, as far as looking one up is concerned. */
export interface Sources {
  /** Resolves when the backend whose namespace an id names has been asked for its tools; undefined when it was. */
  pending(id: string): Promise<void> | undefined
  /** The key of a backend of that namespace which was not asked yet; nobody is asked by this. */
  unasked(id: string): string | undefined
  /** Why a tool that its backend offers may not be called, or why the backend could not be asked. */
  refusal(id: string): ToolError | undefined
}
