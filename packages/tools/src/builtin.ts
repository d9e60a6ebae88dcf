import { programDefinition } from '@gantry/core/internal/code/program-tool'
import type { DefinedTool } from '@gantry/core/internal/tools/tool'
import { fileTools } from './files.ts'
import { httpFetch } from './http-fetch.ts'
import { knowledgeTools } from './knowledge.ts'
import { codeSession, sandboxTools } from './sandbox.ts'
import { type SandboxNetworkOptions, withSandboxNetwork } from './sandbox-network.ts'
import type { WebOptions } from './web/binding.ts'

/** What of the tools that ship with Gantry can be chosen; all of it may be left out. */
export interface BuiltinOptions {
  /** How far `http:fetch` may go. */
  readonly httpFetch?: WebOptions
  /** What programs of callers may reach, and which secrets they may use. */
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
