import { codes, type ErrorInfo, ToolError } from '@gantry/contract'
import type { CommandName } from './command-table.ts'
import { errorInfoOf, errorText } from './errors.ts'
import type { Command, Io } from './io.ts'
import { parseCommandLine, wantsJson } from './parse.ts'
import { printJson } from './print.ts'

/** Each command is a module of its own, loaded when it is asked for. */
const modules: { readonly [Name in CommandName]: () => Promise<{ readonly execute: Command }> } = {
  run: () => import('./commands/run.ts'),
  stream: () => import('./commands/stream.ts'),
  code: () => import('./commands/code.ts'),
  chain: () => import('./commands/chain.ts'),
  tools: () => import('./commands/tools.ts'),
  'tools folder': () => import('./commands/tools-folder.ts'),
  'tools diff': () => import('./commands/tools-diff.ts'),
  'tools approve': () => import('./commands/tools-approve.ts'),
  backends: () => import('./commands/backends.ts'),
  doctor: () => import('./commands/doctor.ts'),
  bench: () => import('./commands/bench.ts'),
  search: () => import('./commands/search.ts'),
  describe: () => import('./commands/describe.ts'),
  serve: () => import('./commands/serve.ts'),
  mcp: () => import('./commands/mcp.ts'),
  'mcp install': () => import('./commands/mcp-install.ts'),
  calls: () => import('./commands/calls.ts'),
  'calls replay': () => import('./commands/calls-replay.ts'),
  call: () => import('./commands/call.ts'),
  cancel: () => import('./commands/cancel.ts'),
  'approvals ls': () => import('./commands/approvals-ls.ts'),
  'approvals show': () => import('./commands/approvals-show.ts'),
  'approvals approve': () => import('./commands/approvals-approve.ts'),
  'approvals deny': () => import('./commands/approvals-deny.ts'),
  'circuits ls': () => import('./commands/circuits-ls.ts'),
  'circuits show': () => import('./commands/circuits-show.ts'),
  'circuits reset': () => import('./commands/circuits-reset.ts'),
  'dlq ls': () => import('./commands/dlq-ls.ts'),
  'dlq show': () => import('./commands/dlq-show.ts'),
  'dlq redrive': () => import('./commands/dlq-redrive.ts'),
  'dlq discard': () => import('./commands/dlq-discard.ts'),
  'keys create': () => import('./commands/keys-create.ts'),
  'keys ls': () => import('./commands/keys-ls.ts'),
  'keys rotate': () => import('./commands/keys-rotate.ts'),
  'keys revoke': () => import('./commands/keys-revoke.ts'),
  'policy test': () => import('./commands/policy-test.ts'),
  'policy show': () => import('./commands/policy-show.ts'),
  'policy set': () => import('./commands/policy-set.ts'),
  'audit ls': () => import('./commands/audit-ls.ts'),
  'audit export': () => import('./commands/audit-export.ts'),
  'audit verify': () => import('./commands/audit-verify.ts'),
  workers: () => import('./commands/workers.ts'),
  'secrets init': () => import('./commands/secrets.ts'),
  'secrets set': () => import('./commands/secrets.ts'),
  'secrets list': () => import('./commands/secrets.ts'),
  'secrets remove': () => import('./commands/secrets.ts'),
  'secrets rekey': () => import('./commands/secrets.ts'),
  'import openapi': () => import('./commands/import.ts'),
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
    const { error, text } = explained(thrown)
    io.err(text)
    if (wantsJson(argv)) await printJson({ error }, io)
    return codes[error.code].exit
  }
}

/** What was thrown may come from a tool or a configuration, and throw again when it is looked at: then fixed words do. */
function explained(thrown: unknown): { readonly error: ErrorInfo; readonly text: string } {
  try {
    const error = errorInfoOf(thrown)
    return { error, text: errorText(error) }
  } catch {
    const error = errorInfoOf(new ToolError('INTERNAL', 'Something failed with an error that cannot be read.'))
    return { error, text: errorText(error) }
  }
}
