import {
  type Issue,
  type Json,
  type JsonObject,
  type SandboxedBinding,
  type SandboxFile,
  ToolError,
} from '@gantry/contract'
import type { Backend, BackendCall, BackendContext } from '@gantry/core/internal/backends/backend'
import { createFeed, type OutputChunk, runtimesHealth } from '@gantry/core/internal/backends/runtime-support'
import type { Egress } from '@gantry/core/internal/egress/egress'
import { meets } from '@gantry/core/internal/runtimes/runtime'
import type { Confinement, RuntimesSource } from '@gantry/core/internal/runtimes/runtimes'
import { checkFiles } from '../languages/file-path.ts'
import { codeProgram } from '../languages/program.ts'
import type { SandboxRuntimes } from '../runtimes/options.ts'
import type { SessionAnswer, SessionJob } from '../sessions/session.ts'
import { outputFiles, withArtifacts } from './files.ts'
import { limitFailure, lossWarnings, whole } from './outcome.ts'
import { collected, egressOf } from './request.ts'
import { didNotStart } from './sandboxed.ts'

/** What the input schema of the tool has checked already. */
type Arguments = JsonObject & {
  readonly action: keyof typeof keys
  readonly session: string
  readonly files?: { readonly [path: string]: SandboxFile }
  readonly path?: string
}

/** Which arguments go with which action. */
const keys = {
  open: ['language', 'profile', 'runtime', 'limits', 'network', 'grants'],
  run: ['session', 'code', 'files'],
  files: ['session', 'files', 'path'],
  close: ['session'],
} as const

/** One call's surroundings. */
interface SessionCall {
  readonly call: BackendCall
  readonly args: Arguments
  readonly context: BackendContext
  readonly ready: SandboxRuntimes
  readonly egress: Egress | undefined
}

/**
 * The backend of `code:session` and of no other tool: interpreters that keep their state between calls, each for one
 * principal of one tenant. What `Sessions` says of their life holds here.
 * - Cancellation: the signal of a run ends its session.
 * - Errors: INPUT_INVALID at `/session` for one that ended, with the reason, or is not there; RATE_LIMITED for too many.
 */
export function sessionBackend(runtimes: RuntimesSource<SandboxRuntimes>): Backend {
  let egress: Egress | undefined
  return {
    kind: 'session',
    name: 'session',
    builtin: true,
    runsPrograms: true,
    enforces: ['egress', 'floor'],
    attach(host) {
      egress = host.egress
    },
    isFault: didNotStart,
    health: (signal) => runtimesHealth(runtimes, signal),
    async call(call, context) {
      const args = call.args as Arguments
      refuseStray(args)
      const sessionCall = { call, args, context, egress, ready: await runtimes() }
      if (args.action === 'open') return open(sessionCall)
      const { sessions } = sessionCall.ready
      const { runtime } = sessions.info(args.session, context.identity)
      const { isolation } = runtime
      context.measured({ runtime })
      if (context.floor !== undefined && !meets(isolation, context.floor)) throw tooWeak(isolation, context.floor)
      if (args.action === 'run') return run(sessionCall)
      if (args.action === 'files') return files(sessionCall)
      await sessions.close(args.session, context.identity)
      return { closed: true }
    },
  }
}

async function open({ call, args, context, ready, egress }: SessionCall): Promise<Json> {
  const { language = '', profile, runtime, limits, network } = args as Confinement & { readonly language?: string }
  const { name } = ready.languages.get(language)
  const reach = call.tool.egress === undefined ? {} : { egress: call.tool.egress }
  const { credentials = {} } = call.binding as Pick<SandboxedBinding, 'credentials'>
  const confinement: Confinement = {
    ...(profile === undefined ? {} : { profile }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(limits === undefined ? {} : { limits }),
    ...(network === undefined ? {} : { network }),
    ...(context.floor === undefined ? {} : { least: context.floor }),
    ...(await egressOf({ kind: 'sandboxed', takes: 'code', credentials, ...reach }, call, network, context, egress)),
  }
  const { id, runtime: ran } = await ready.sessions.open(context.identity, name, confinement, context.signal)
  context.measured({ runtime: ran })
  return { session: id, language: name, ...ready.sessions.times }
}

/** As a run in a fresh sandbox, but that the interpreter stays, which has no standard input of its own. */
async function* run(sessionCall: SessionCall): AsyncGenerator<OutputChunk, Json> {
  const { args, context, ready } = sessionCall
  const { session, code = '', files: given } = args as { session: string } & RunArguments
  const { language } = ready.sessions.info(session, context.identity)
  codeProgram({ language, code }, ready.languages)
  const feed = createFeed(context)
  const job: SessionJob = {
    collect: context.keepsFiles ? collected.kept : collected.inline,
    onOutput: feed.output,
    onMessage: feed.message,
    ...(given === undefined ? {} : { files: checkFiles(await withArtifacts(given, context)) }),
  }
  const work = ready.sessions.run(session, context.identity, code, job, context.signal).finally(feed.end)
  const tellPartial = (): void => context.measured({ partial: feed.written() })
  context.signal.addEventListener('abort', tellPartial, { once: true })
  // The work is waited for below; this keeps a failure before that from counting as unhandled.
  work.catch(() => undefined)
  yield* feed.chunks()
  const answer = await work
  context.signal.removeEventListener('abort', tellPartial)
  const output = (await whole(answer.outcome, [...answer.changed], context)) as JsonObject
  measure(answer, context)
  return answer.ended === undefined ? output : { ...output, ended: answer.ended }
}

interface RunArguments {
  readonly code?: string
  readonly files?: { readonly [path: string]: SandboxFile }
}

function measure({ outcome, runtime }: SessionAnswer, context: BackendContext): void {
  const { usage, enforced, hit } = outcome
  const failure = limitFailure(outcome)
  context.measured({
    runtime,
    usage: { ...usage, enforced, ...(hit === undefined ? {} : { hit }) },
    ...(failure === undefined ? {} : { failure }),
    warnings: lossWarnings(outcome),
    plain: true,
  })
}

/** More names than a run brings out, because here they are what is asked for. */
const mostListed = 1_000

/** Puts files in, or brings one or the list of all out, by a run that does nothing. */
async function files({ args, context, ready }: SessionCall): Promise<Json> {
  const { session, files: given, path } = args
  const job: SessionJob =
    given === undefined
      ? { collect: { files: mostListed, bytes: collected.kept.bytes } }
      : { files: checkFiles(await withArtifacts(given, context)) }
  const { outcome } = await ready.sessions.run(session, context.identity, '', job, context.signal)
  if (given !== undefined) return { put: Object.keys(given) }
  if (path === undefined) {
    const listed = [...outcome.files].map(([name, content]) => ({ path: name, bytes: content.length }))
    return { list: listed, ...(outcome.skipped.length === 0 ? {} : { truncated: ['files'] }) }
  }
  const content = outcome.files.get(path)
  if (content === undefined) throw invalid({ path: '/path', message: 'names no file that can be brought out' })
  return { files: (await outputFiles([[path, content]], context)) as JsonObject }
}

function refuseStray(args: Arguments): void {
  const known: readonly string[] = ['action', ...keys[args.action]]
  const stray = Object.keys(args).find((key) => !known.includes(key))
  if (stray !== undefined) throw invalid({ path: `/${stray}`, message: `does not go with ${args.action}` })
}

function tooWeak(isolation: string, floor: string): ToolError {
  const message = `The session is held by ${isolation}, but ${floor} is demanded now; open a new one.`
  return new ToolError('RUNTIME_UNAVAILABLE', message, { retryable: false })
}

function invalid(issue: Issue): ToolError {
  return new ToolError('INPUT_INVALID', `The arguments are wrong: ${issue.path} ${issue.message}.`, {
    details: { issues: [issue] },
  })
}
