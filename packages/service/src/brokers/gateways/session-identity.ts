import { type Identity, type Json, type Tool, ToolError } from '@gantry/contract'
import { decodeMsgpack } from '../codecs/msgpack.ts'
import { untilAborted } from './until-aborted.ts'

/** Whom the sessions of a gateway stand for. */
export interface SessionOptions {
  /** The first bytes of a text in Redis, up to and with `last`; empty when there is none. */
  readonly read: (key: string, last: number) => Promise<Uint8Array>
  /** What the names of records begin with; `sg:tools:session:` when absent. */
  readonly prefix?: string
  /** Tenant of everybody whose guild has none of its own. Without it such a session is refused. */
  readonly tenant?: string
  /** Tenants of guilds, by `platform:guild_id`. */
  readonly guilds?: { readonly [guild: string]: string }
  /** What everybody with a session holds. */
  readonly permissions?: readonly string[]
  /** Who holds a permission besides: principals (`platform:user_id`), or `*` for everybody with a session. */
  readonly holders?: Holders
}

/** Who holds a permission: `*`, or principals. */
export type Holders = { readonly [permission: string]: '*' | readonly string[] }

/** Finds out who is behind a session. */
export interface Sessions {
  /**
   * Rejects with UNAUTHENTICATED when there is no such session, or none that can be read. Rejects with STORE_UNAVAILABLE
   * when Redis does not answer: nobody knows then who the sender is, so that nothing may be done for him, and nothing
   * final be said to him either. CANCELLED when the signal aborts.
   */
  identify(session: string, signal: AbortSignal): Promise<Identity>
}

/** Wide enough for UUIDs, ULIDs, W3C trace ids and what gateways put before them; no spaces, globs or line ends. */
const sessionForm = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$/
const platformForm = /^[a-z0-9][a-z0-9_-]{0,31}$/i
const idForm = /^[\x21-\x7e]{1,200}$/
const limits = { bytes: 16_384, depth: 8, nodes: 500, stringBytes: 4_096 }

/**
 * Sessions as a gateway writes them: one MessagePack map for each trace id, with `user_id`, `guild_id`, `channel_id` and
 * `platform`, which Redis forgets after a time. The record alone says who somebody is; where he speaks from is in his
 * roles, `platform:…`, `guild:…` and `channel:…`, so that a policy can tell.
 *
 * The trace id is a name, not a secret; who may write records and requests is for the access rules of Redis to say.
 */
export function redisSessions(options: SessionOptions): Sessions {
  const { prefix = 'sg:tools:session:', holders = {} } = options
  checkHolders(holders)
  /** One byte more than there may be tells that there is too much, without fetching it. */
  const read = async (session: string, signal: AbortSignal): Promise<Json | undefined> => {
    const bytes = await untilAborted(options.read(`${prefix}${session}`, limits.bytes), signal)
    if (bytes.length === 0) return undefined
    try {
      return decodeMsgpack(bytes, limits)
    } catch (error) {
      throw unknown('The record of the session cannot be read.', error)
    }
  }
  return {
    async identify(session, signal) {
      if (!sessionForm.test(session)) throw unknown('The request names no session, or one that cannot be.')
      const record = await read(session, signal)
      if (record === undefined) throw unknown('There is no such session, or it is over.')
      return identityOf(record, options, holders)
    },
  }
}

function identityOf(
  record: Json,
  { tenant, guilds = {}, permissions = [] }: SessionOptions,
  holders: Holders,
): Identity {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) throw malformed()
  const platform = textOf(record.platform)
  const user = textOf(record.user_id)
  if (!platformForm.test(platform) || !idForm.test(user)) throw malformed()
  const [guild, channel] = [placeOf(record.guild_id), placeOf(record.channel_id)]
  const principal = `${platform}:${user}`
  const own = `${platform}:${guild}`
  const belongs = guild !== '' && Object.hasOwn(guilds, own) ? guilds[own] : tenant
  if (belongs === undefined) throw unknown('The session belongs to no tenant that is served here.')
  const roles = [
    `platform:${platform}`,
    ...(guild === '' ? [] : [`guild:${own}`]),
    ...(channel === '' ? [] : [`channel:${platform}:${channel}`]),
  ]
  return { principal, tenant: belongs, permissions: [...permissions, ...permissionsOf(principal, holders)], roles }
}

function permissionsOf(principal: string, holders: Holders): string[] {
  return Object.keys(holders).filter(
    (permission) => holders[permission] === '*' || holders[permission]?.includes(principal),
  )
}

/**
 * Who of a gateway's users may call a tool, as its catalog tells: `*`, or principals. Undefined when everybody may,
 * because the tool asks for nothing that not everybody holds.
 */
export function holdersOf(
  tool: Pick<Tool, 'permissions'>,
  { permissions = [], holders = {} }: Pick<SessionOptions, 'permissions' | 'holders'>,
): readonly string[] | undefined {
  let may: readonly string[] | undefined
  for (const needed of tool.permissions ?? []) {
    const granting = Object.keys(holders).filter((held) => grants(held, needed))
    if (permissions.some((held) => grants(held, needed)) || granting.some((held) => holders[held] === '*')) continue
    const who = new Set(granting.flatMap((held) => holders[held] ?? []))
    may = may === undefined ? [...who].sort() : may.filter((one) => who.has(one))
  }
  return may
}

/** As the pipeline reads permissions: the same name, `prefix:*`, or `*`. */
function grants(held: string, needed: string): boolean {
  return held === needed || held === '*' || (held.endsWith(':*') && needed.startsWith(held.slice(0, -1)))
}

/** A user id without its platform would be somebody else on another one. */
function checkHolders(holders: Holders): void {
  for (const [permission, who] of Object.entries(holders)) {
    if (who === '*' || (Array.isArray(who) && who.every((one) => /^[^:]+:./.test(one)))) continue
    const issues = [{ path: `/holders/${permission}`, message: 'must be * or a list of users such as discord:1234' }]
    throw new ToolError('CONFIG_INVALID', `The holders of ${permission} ${issues[0]?.message}.`, {
      details: { issues },
    })
  }
}

/** Platforms number their users, and gateways send numbers as they like. */
function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : Number.isSafeInteger(value) ? String(value) : ''
}

/** Somebody may speak from no place, but not from one that cannot be. */
function placeOf(value: Json | undefined): string {
  const text = textOf(value)
  if (value === undefined || value === null || value === '' || idForm.test(text)) return text
  throw malformed()
}

function malformed(): ToolError {
  return unknown('The record of the session does not say who it is of.')
}

function unknown(message: string, cause?: unknown): ToolError {
  return new ToolError('UNAUTHENTICATED', message, { cause })
}
