import { type JsonObject, type SandboxFile, type SandboxLimits, type SandboxNetwork, ToolError } from '@gantry/contract'
import type { BackendCall, BackendContext } from '@gantry/core/internal/backends/backend'
import type { Egress } from '@gantry/core/internal/egress/egress'
import { quote } from '@gantry/core/internal/ids/quote'
import type { Program } from '@gantry/core/internal/runtimes/runtime'
import type { SandboxRequest } from '@gantry/core/internal/runtimes/runtimes'
import { didYouMean } from '@gantry/core/internal/search/near'
import { outsideOf, overlap } from '../egress-proxy/origins.ts'
import { checkFiles } from '../languages/file-path.ts'
import type { Languages } from '../languages/languages.ts'
import { type CodeArguments, codeProgram, type ShellArguments, shellProgram } from '../languages/program.ts'
import type { SandboxedPlan } from './binding.ts'
import { withArtifacts } from './files.ts'

/** What of a workspace is brought back: little enough for one result, or more where files are kept outside it. */
export const collected = { inline: { files: 64, bytes: 1_048_576 }, kept: { files: 64, bytes: 33_554_432 } } as const

/** What a call asks of the sandboxes: by its arguments for the built-in tools, by its binding for all others. */
export async function requestOf(
  plan: SandboxedPlan,
  { id, args }: BackendCall,
  context: BackendContext,
  egress: Egress | undefined,
  languages: Languages,
): Promise<SandboxRequest> {
  const asked =
    plan.takes === undefined ? fromBinding(plan, args, languages) : await fromArguments(plan, args, context, languages)
  return { ...asked, ...(await egressOf(plan, { id, args }, asked.network, context, egress)) }
}

/** The caller's program, in the caller's surroundings. */
async function fromArguments(
  { takes }: SandboxedPlan,
  args: JsonObject,
  context: BackendContext,
  languages: Languages,
): Promise<SandboxRequest> {
  const { stdin, files, profile, runtime, limits, network, deterministic } = args as Arguments
  return {
    program:
      takes === 'code'
        ? codeProgram(args as unknown as CodeArguments, languages)
        : shellProgram(args as ShellArguments),
    collect: context.keepsFiles ? collected.kept : collected.inline,
    ...(stdin === undefined ? {} : { stdin: bytesOf(stdin) }),
    ...(files === undefined ? {} : { files: checkFiles(await withArtifacts(files, context)) }),
    ...(profile === undefined ? {} : { profile }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(limits === undefined ? {} : { limits }),
    ...(network === undefined ? {} : { network }),
    ...(deterministic === undefined || deterministic === false ? {} : { deterministic: fixedBy(deterministic) }),
  }
}

/** What the tools' input schema has checked already. */
interface Arguments {
  readonly stdin?: string
  readonly files?: { readonly [path: string]: SandboxFile }
  readonly profile?: string
  readonly runtime?: string
  readonly limits?: Partial<SandboxLimits>
  readonly network?: SandboxNetwork
  readonly deterministic?: Deterministic | false
}

/** What a repeatable run starts from; `now` in milliseconds since 1970, or as RFC 3339 writes it. */
type Deterministic = true | { readonly seed?: number; readonly now?: number | string }

/** 2000-01-01T00:00:00Z, for runs that name no time. */
const usualNowMs = 946_684_800_000
/** The last millisecond of the year 9999, beyond which Python has no dates. */
const latestMs = 253_402_300_799_999

function fixedBy(given: Deterministic): { readonly seed: number; readonly nowMs: number } {
  const { seed = 0, now = usualNowMs } = given === true ? {} : given
  const nowMs = typeof now === 'number' ? now : Date.parse(now)
  if (Number.isInteger(nowMs) && nowMs >= 0 && nowMs <= latestMs) return { seed, nowMs }
  const issues = [{ path: '/deterministic/now', message: 'must be a time from 1970 to 9999' }]
  throw new ToolError('INPUT_INVALID', 'The clock of the program cannot stand at /deterministic/now.', {
    details: { issues },
  })
}

/** The tool's program; the caller's arguments are only ever data on its stdin. */
function fromBinding(plan: SandboxedPlan, args: JsonObject, languages: Languages): SandboxRequest {
  const { profile, runtime, egress, limits, files, env } = plan
  return {
    program: programOf(plan, languages),
    stdin: bytesOf(JSON.stringify(args)),
    ...(files === undefined ? {} : { files: checkFiles(files) }),
    ...(env === undefined ? {} : { env }),
    ...(profile === undefined ? {} : { profile }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(limits === undefined ? {} : { limits }),
    ...(egress === undefined || egress.length === 0 ? {} : { network: { allow: egress } }),
  }
}

function programOf({ command, script, code, language }: SandboxedPlan, languages: Languages): Program {
  if (command !== undefined) return { kind: 'argv', argv: command }
  if (script !== undefined) return { kind: 'script', script }
  return codeProgram({ language: language ?? '', code: code ?? '' }, languages)
}

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

const shortestValue = 8

type Dial = NonNullable<SandboxRequest['dial']>
type Credentials = NonNullable<SandboxedPlan['credentials']>

/**
 * The egress of one call's sandbox: what it reaches, within what its tool may, and the secrets behind its placeholders,
 * fetched for this caller and from here on kept out of everything that leaves the call.
 * - Errors: EGRESS_DENIED for origins that the tool does not name, INPUT_INVALID for credentials that it is not granted
 *   or that nothing in reach is for, SECRET_UNAVAILABLE.
 */
export async function egressOf(
  plan: SandboxedPlan,
  { id, args }: Pick<BackendCall, 'id' | 'args'>,
  network: SandboxNetwork = 'none',
  context: Pick<BackendContext, 'secret' | 'identity'>,
  egress: Egress | undefined,
): Promise<{ readonly dial?: Dial }> {
  const granted = plan.takes === undefined ? (plan.credentials ?? {}) : namedOf(plan.credentials ?? {}, args)
  const allow = network === 'none' ? [] : network.allow
  if (plan.egress !== undefined && plan.takes !== undefined) checkWithin(allow, plan.egress)
  if (plan.takes !== undefined) checkReach(granted, allow)
  if (egress === undefined) return {}
  const dial = { egress, owner: id, tenant: context.identity.tenant }
  if (allow.length === 0 || Object.keys(granted).length === 0) return { dial }
  return { dial: { ...dial, credentials: await fetched(granted, context) } }
}

/** Those that the call names, of those that its tool is granted: an argument never names a secret. */
function namedOf(granted: Credentials, { grants = [] }: JsonObject): Credentials {
  const names = Array.isArray(grants) ? grants : []
  const wanted = names.map((name, index) => {
    if (typeof name === 'string' && Object.hasOwn(granted, name)) return [name, granted[name]] as const
    const known = Object.keys(granted)
    const others = known.length === 0 ? 'the tool is granted none' : `the tool is granted ${known.join(', ')}`
    throw invalid(
      `/grants/${index}`,
      `${quote(String(name))} is not granted${didYouMean(String(name), known)}; ${others}`,
    )
  })
  return Object.fromEntries(wanted) as Credentials
}

/** A tool's own list narrows what its callers may ask for. */
function checkWithin(allow: readonly string[], egress: readonly string[]): void {
  const [outside] = outsideOf(allow, egress)
  if (outside === undefined) return
  const message = `The tool may reach only what it names, and ${outside} is not there; it names ${egress.join(', ') || 'nothing'}.`
  throw new ToolError('EGRESS_DENIED', message)
}

/** A credential for hosts that are out of reach is a mistake, of which the program would hear only as a wrong password. */
function checkReach(granted: Credentials, allow: readonly string[]): void {
  for (const [name, { hosts }] of Object.entries(granted)) {
    if (overlap(hosts, allow)) continue
    throw invalid('/network', `must allow ${hosts.join(' or ')}, which ${name} is for`)
  }
}

function fetched(
  granted: Credentials,
  context: Pick<BackendContext, 'secret'>,
): Promise<NonNullable<Dial['credentials']>> {
  const all = Object.entries(granted).map(async ([variable, { secret, hosts, in: places }]) => {
    const value = await context.secret(secret)
    // Such a value could end a header and begin another.
    if (/\p{Cc}/u.test(value)) {
      throw new ToolError('SECRET_UNAVAILABLE', `The secret ${secret} has a character that no header can carry.`)
    }
    // A shorter one would be taken for a secret wherever a server writes the same by chance.
    if (value.length < shortestValue) {
      throw new ToolError('SECRET_UNAVAILABLE', `The secret ${secret} has fewer than ${shortestValue} characters.`)
    }
    return { variable, value: () => value, hosts, ...(places === undefined ? {} : { in: places }) }
  })
  return Promise.all(all)
}

function invalid(path: string, message: string): ToolError {
  return new ToolError('INPUT_INVALID', `The call is wrong: ${path} ${message}.`, {
    details: { issues: [{ path, message }] },
  })
}
