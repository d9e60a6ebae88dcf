import { programDefinition } from '@gantry/core/internal/code/program-tool'
import type { DefinedTool } from '@gantry/core/internal/tools/tool'
import { fileTools } from './files.ts'
import { httpFetch } from './http-fetch.ts'
import { knowledgeTools } from './knowledge.ts'
import { codeSession, type SandboxNetworkOptions, sandboxTools, withSandboxNetwork } from './sandbox.ts'
import type { WebOptions } from './web/binding.ts'

/** Options of the tools that ship with Gantry; all of them may be left out. */
export interface BuiltinOptions {
  /** Origins, methods and secrets of `http:fetch`. */
  readonly httpFetch?: WebOptions
  /** Origins and credentials of callers' programs. */
  readonly sandboxNetwork?: SandboxNetworkOptions
}

/** Tools that ship with Gantry; throws CONFIG_INVALID for wrong options. */
export function builtinTools(options: BuiltinOptions = {}): DefinedTool[] {
  return [
    ...withSandboxNetwork([...sandboxTools(), codeSession], options.sandboxNetwork),
    ...fileTools(),
    httpFetch(options.httpFetch),
    ...knowledgeTools(),
    programDefinition,
  ]
}
