import {
  type Issue,
  type Json,
  type JsonObject,
  type SandboxedBinding,
  type SandboxFile,
  type Tool,
  ToolError,
} from '@gantry/contract'
import type { Backend, BackendCall, BackendContext } from '@gantry/core/internal/backends/backend'
import { createFeed, type OutputChunk, runtimesHealth } from '@gantry/core/internal/code/program-backend'
import type { Egress } from '@gantry/core/internal/egress/egress'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import { meets } from '@gantry/core/internal/runtimes/runtime'
import type { Confinement, RuntimesSource } from '@gantry/core/internal/runtimes/runtimes'
import { checkFiles } from '../languages/file-path.ts'
import { codeProgram } from '../languages/program.ts'
import type { SandboxRuntimes } from '../runtimes/options.ts'
import type { SessionJob } from '../sessions/session.ts'
import { outputFiles, withArtifacts } from './files.ts'
import { limitFailure, measure, whole } from './outcome.ts'
import { collected, demandsOf, egressOf } from './request.ts'
import { didNotStart } from './sandboxed.ts'

/** Already validated against the tool's input schema. */
interface Arguments extends Confinement {
  readonly action: keyof typeof keys
  readonly session: string
  readonly language?: string
  readonly code?: string
  readonly files?: { readonly [path: string]: SandboxFile }
  readonly path?: string
}

/** The arguments of each action. */
const keys = {
  open: ['language', 'profile', 'runtime', 'limits', 'network', 'grants'],
  run: ['session', 'code', 'files'],
  files: ['session', 'files', 'path'],
  close: ['session'],
} as const

/** Everything that one call needs. */
interface SessionCall {
  readonly call: BackendCall
  readonly args: Arguments
  readonly context: BackendContext
  readonly ready: SandboxRuntimes
  readonly egress: Egress | undefined
}

/**
 * The backend of `code:session`: interpreters that keep their state between calls, each for one principal of one tenant.
 * Their life cycle is that of `Sessions`.
 * - Cancellation: the signal of a run ends its session.
 * - Errors: INPUT_INVALID at `/session` for an unknown session or an ended one, with the reason; RATE_LIMITED for too many.
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
    async explain({ id, args, tool }, { identity, floor, signal }) {
      const given = args as JsonObject & Arguments
      refuseUnknown(given)
      if (given.action !== 'open') throw keptSession()
      const ready = await runtimes()
      const plan = { kind: 'sandboxed', takes: 'code', ...reachOf(tool) } as const
      const asked = { id, args: { code: '', ...args } }
      const { program, confinement } = demandsOf(plan, asked, identity, egress, ready.languages)
      const least = floor === undefined ? {} : { least: floor }
      return ready.explain({ ...program, session: true }, { ...confinement, ...least }, signal)
    },
    async call(call, context) {
      const args = call.args as JsonObject & Arguments
      refuseUnknown(args)
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

function reachOf({ egress }: Tool): { readonly egress?: readonly string[] } {
  return egress === undefined ? {} : { egress }
}

function keptSession(): ToolError {
  const message = 'A session stays in the runtime that it was opened in; only the action open selects one.'
  return new ToolError('INPUT_INVALID', message, { details: { issues: [{ path: '/action', message }] } })
}

async function open({ call, args, context, ready, egress }: SessionCall): Promise<Json> {
  const { language = '', profile, runtime, limits, network } = args
  const { name } = ready.languages.get(language)
  const { credentials = {} } = call.binding as Pick<SandboxedBinding, 'credentials'>
  const confinement: Confinement = {
    ...(profile === undefined ? {} : { profile }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(limits === undefined ? {} : { limits }),
    ...(network === undefined ? {} : { network }),
    ...(context.floor === undefined ? {} : { least: context.floor }),
    ...(await egressOf(
      { kind: 'sandboxed', takes: 'code', credentials, ...reachOf(call.tool) },
      call,
      network,
      context,
      egress,
    )),
  }
  const { id, runtime: ran } = await ready.sessions.open(context.identity, name, confinement, context.signal)
  context.measured({ runtime: ran })
  return { session: id, language: name, ...ready.sessions.times }
}

/** Like a run in a fresh sandbox, except that the interpreter is kept and has no stdin. */
async function* run({ args, context, ready }: SessionCall): AsyncGenerator<OutputChunk, unknown> {
  const { session, code = '', files: given } = args
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
  const leave = onAbort(context.signal, () => context.measured({ partial: feed.written() }))
  // The work is awaited below; this prevents an unhandled rejection before that.
  work.catch(() => undefined)
  yield* feed.chunks()
  const answer = await work
  leave()
  const output = await whole(answer.outcome, [...answer.changed], context)
  measure({ ...answer, failure: limitFailure(answer.outcome) }, context)
  return answer.ended === undefined ? output : { ...output, ended: answer.ended }
}

/** Higher than for a run, because the list of names is the result here. */
const mostListed = 1_000

/** Writes files, or reads one or lists all, through a run that does nothing. */
async function files({ args, context, ready }: SessionCall): Promise<unknown> {
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
  if (content === undefined) throw invalid({ path: '/path', message: 'names no file that can be collected' })
  return { files: await outputFiles([[path, content]], context) }
}

function refuseUnknown(args: Arguments): void {
  const known: readonly string[] = ['action', ...keys[args.action]]
  const unknown = Object.keys(args).find((key) => !known.includes(key))
  if (unknown !== undefined) throw invalid({ path: `/${unknown}`, message: `is not an argument of ${args.action}` })
}

function tooWeak(isolation: string, floor: string): ToolError {
  const message = `The isolation of the session is ${isolation}, but ${floor} is required now; open a new one.`
  return new ToolError('RUNTIME_UNAVAILABLE', message, { retryable: false })
}

function invalid(issue: Issue): ToolError {
  return new ToolError('INPUT_INVALID', `The arguments are wrong: ${issue.path} ${issue.message}.`, {
    details: { issues: [issue] },
  })
}
