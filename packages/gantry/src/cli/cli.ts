import { codes, type ErrorInfo, ToolError } from '@gantry/contract'
import type { CommandName } from './command-table.ts'
import { errorInfoOf, errorText } from './errors.ts'
import type { Command, Io } from './io.ts'
import { parseCommandLine, wantsJson } from './parse.ts'
import { printJson } from './print.ts'

/** The handler of each command. A group of commands is one module, loaded on first use. */
const handlers: { readonly [Name in CommandName]: () => Promise<Command> } = {
  run: async () => (await import('./commands/run.ts')).runTool,
  stream: async () => (await import('./commands/run.ts')).streamTool,
  code: async () => (await import('./commands/code.ts')).runProgram,
  chain: async () => (await import('./commands/run.ts')).runChain,
  tools: async () => (await import('./commands/tools.ts')).listTools,
  init: async () => (await import('./commands/init.ts')).initProject,
  search: async () => (await import('./commands/tools.ts')).searchTools,
  describe: async () => (await import('./commands/tools.ts')).describeTool,
  'tools folder': async () => (await import('./commands/config.ts')).checkToolsFolder,
  'config check': async () => (await import('./commands/config.ts')).checkConfigFile,
  'tools diff': async () => (await import('./commands/tools.ts')).diffTools,
  'tools approve': async () => (await import('./commands/tools.ts')).approveTools,
  backends: async () => (await import('./commands/doctor.ts')).listBackends,
  doctor: async () => (await import('./commands/doctor.ts')).diagnose,
  'runtime build': async () => (await import('./commands/runtime-packages.ts')).buildRuntime,
  'runtime images': async () => (await import('./commands/runtime.ts')).listImages,
  'runtime prune': async () => (await import('./commands/runtime-packages.ts')).pruneRuntime,
  'runtime template': async () => (await import('./commands/runtime.ts')).writeTemplate,
  'runtime serve': async () => (await import('./commands/runtime.ts')).serveRuntimes,
  'worker temporal': async () => (await import('./commands/worker.ts')).workForTemporal,
  bench: async () => (await import('./commands/bench.ts')).benchTool,
  serve: async () => (await import('./commands/serve.ts')).serveCalls,
  login: async () => (await import('./commands/login.ts')).logIn,
  logout: async () => (await import('./commands/login.ts')).logOut,
  mcp: async () => (await import('./commands/mcp.ts')).serveMcp,
  'mcp install': async () => (await import('./commands/mcp.ts')).printMcpConfig,
  calls: async () => (await import('./commands/calls.ts')).listCalls,
  'calls replay': async () => (await import('./commands/calls.ts')).replayCall,
  call: async () => (await import('./commands/calls.ts')).showCall,
  logs: async () => (await import('./commands/logs.ts')).showLogs,
  'files put': async () => (await import('./commands/files.ts')).putFile,
  'files ls': async () => (await import('./commands/files.ts')).listFiles,
  'files get': async () => (await import('./commands/files.ts')).getFile,
  'files rm': async () => (await import('./commands/files.ts')).removeFiles,
  cancel: async () => (await import('./commands/calls.ts')).cancelCall,
  'approvals ls': async () => (await import('./commands/approvals.ts')).listApprovals,
  'approvals show': async () => (await import('./commands/approvals.ts')).showApproval,
  'approvals approve': async () => (await import('./commands/approvals.ts')).approveCall,
  'approvals deny': async () => (await import('./commands/approvals.ts')).denyCall,
  'circuits ls': async () => (await import('./commands/circuits.ts')).listCircuits,
  'circuits show': async () => (await import('./commands/circuits.ts')).showCircuit,
  'circuits reset': async () => (await import('./commands/circuits.ts')).resetCircuit,
  'dlq ls': async () => (await import('./commands/calls.ts')).listDeadLetters,
  'dlq show': async () => (await import('./commands/calls.ts')).showDeadLetter,
  'dlq redrive': async () => (await import('./commands/calls.ts')).redriveDeadLetter,
  'dlq discard': async () => (await import('./commands/calls.ts')).discardDeadLetter,
  'keys create': async () => (await import('./commands/keys.ts')).createKey,
  'keys ls': async () => (await import('./commands/keys.ts')).listKeys,
  'keys rotate': async () => (await import('./commands/keys.ts')).rotateKey,
  'keys revoke': async () => (await import('./commands/keys.ts')).revokeKey,
  'policy test': async () => (await import('./commands/policy.ts')).testPolicy,
  'policy show': async () => (await import('./commands/policy.ts')).showPolicy,
  'policy set': async () => (await import('./commands/policy.ts')).setPolicy,
  'audit ls': async () => (await import('./commands/audit.ts')).listAudit,
  'audit export': async () => (await import('./commands/audit.ts')).exportAudit,
  'audit verify': async () => (await import('./commands/audit.ts')).verifyAudit,
  workers: async () => (await import('./commands/doctor.ts')).listWorkers,
  'secrets init': async () => (await import('./commands/secrets.ts')).manageSecrets,
  'secrets set': async () => (await import('./commands/secrets.ts')).manageSecrets,
  'secrets list': async () => (await import('./commands/secrets.ts')).manageSecrets,
  'secrets remove': async () => (await import('./commands/secrets.ts')).manageSecrets,
  'secrets rekey': async () => (await import('./commands/secrets.ts')).manageSecrets,
  'import openapi': async () => (await import('./commands/import.ts')).importOpenapiTools,
  docs: async () => (await import('./commands/docs.ts')).showDocs,
  completion: async () => (await import('./commands/completion.ts')).printCompletion,
  __complete: async () => (await import('./commands/completion.ts')).completeTools,
  help: async () => (await import('./commands/help.ts')).showHelp,
}

/** Runs one command line. Resolves with the exit code and never rejects. */
export async function runCommandLine(argv: readonly string[], io: Io): Promise<number> {
  try {
    const invocation = await parseCommandLine(argv)
    const execute = await handlers[invocation.command]()
    return await execute(invocation, io)
  } catch (thrown) {
    const { error, text } = explained(thrown)
    io.err(text)
    if (wantsJson(argv)) await printJson({ error }, io)
    return codes[error.code].exit
  }
}

/** A value thrown by a tool or a configuration may throw again when it is read; a fixed message is printed instead. */
function explained(thrown: unknown): { readonly error: ErrorInfo; readonly text: string } {
  try {
    const error = errorInfoOf(thrown)
    return { error, text: errorText(error) }
  } catch {
    const error = errorInfoOf(new ToolError('INTERNAL', 'The command failed with an error that cannot be serialized.'))
    return { error, text: errorText(error) }
  }
}
