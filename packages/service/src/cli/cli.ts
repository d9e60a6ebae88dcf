import { codes } from '@gantry/contract'
import type { CommandName } from './command-table.ts'
import { errorInfoOf, errorText } from './errors.ts'
import type { Command, Io } from './io.ts'
import { parseCommandLine, wantsJson } from './parse.ts'
import { printJson } from './print.ts'

/** Each command is a module of its own, loaded when it is asked for. */
const modules: { readonly [Name in CommandName]: () => Promise<{ readonly execute: Command }> } = {
  run: () => import('./commands/run.ts'),
  stream: () => import('./commands/stream.ts'),
  chain: () => import('./commands/chain.ts'),
  tools: () => import('./commands/tools.ts'),
  search: () => import('./commands/search.ts'),
  describe: () => import('./commands/describe.ts'),
  'config check': () => import('./commands/config-check.ts'),
  completion: () => import('./commands/completion.ts'),
  help: () => import('./commands/help.ts'),
  __complete: () => import('./commands/complete.ts'),
}

/** One command line, start to end; answers with the exit code and never rejects. */
export async function runCommandLine(argv: readonly string[], io: Io): Promise<number> {
  try {
    const invocation = await parseCommandLine(argv)
    const { execute } = await modules[invocation.command]()
    return await execute(invocation, io)
  } catch (thrown) {
    const error = errorInfoOf(thrown)
    io.err(errorText(error))
    if (wantsJson(argv)) await printJson({ error }, io)
    return codes[error.code].exit
  }
}
