import { type Identity, type Json, type Tool, ToolError } from '@gantry/contract'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import { decodeMsgpack } from '../codecs/msgpack.ts'
import { abortedWait } from '../transports/redis/reply.ts'

/** The identities of a gateway's sessions. */
export interface SessionOptions {
  /** The first bytes of a text in Redis, up to and including `last`; empty when it does not exist. */
  readonly read: (key: string, last: number) => Promise<Uint8Array>
  /** The prefix of the record keys; `sg:tools:session:` when absent. */
  readonly prefix?: string
  /** Tenant of sessions whose guild has none of its own. Without it such a session is refused. */
  readonly tenant?: string
  /** Tenants of guilds, by `platform:guild_id`. */
  readonly guilds?: { readonly [guild: string]: string }
  /** Permissions that every session holds. */
  readonly permissions?: readonly string[]
  /** Further holders of permissions: principals (`platform:user_id`), or `*` for every session. */
  readonly holders?: Holders
}

/** The holders of a permission: `*`, or principals. */
export type Holders = { readonly [permission: string]: '*' | readonly string[] }

/** Identifies the sender of a session. */
export interface Sessions {
  /**
   * Rejects with UNAUTHENTICATED when the session does not exist or cannot be decoded. Rejects with STORE_UNAVAILABLE
   * when Redis does not answer: the sender is unknown, so the request is neither executed nor refused for good.
   * CANCELLED when the signal aborts.
   */
  identify(session: string, signal: AbortSignal): Promise<Identity>
}

/** Wide enough for UUIDs, ULIDs, W3C trace ids and prefixes of gateways; no spaces, globs or line ends. */
const sessionForm = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$/
const platformForm = /^[a-z0-9][a-z0-9_-]{0,31}$/i
const idForm = /^[\x21-\x7e]{1,200}$/
const limits = { bytes: 16_384, depth: 8, nodes: 500, stringBytes: 4_096 }

/**
 * Sessions as a gateway writes them: one MessagePack map for each trace id, with `user_id`, `guild_id`, `channel_id`
 * and `platform`, which Redis expires. The record alone establishes the identity. Its platform, guild and channel
 * become the roles `platform:…`, `guild:…` and `channel:…`, which a policy can match.
 * | The trace id is a name, not a secret; the access rules of Redis determine who may write records and requests.
 */
export function redisSessions(options: SessionOptions): Sessions {
  const { prefix = 'sg:tools:session:', holders = {} } = options
  checkHolders(holders)
  /** One byte over the limit shows that the record is too large, without fetching all of it. */
  const read = async (session: string, signal: AbortSignal): Promise<Json | undefined> => {
    const bytes = await unlessAborted(options.read(`${prefix}${session}`, limits.bytes), signal, abortedWait)
    if (bytes.length === 0) return undefined
    try {
      return decodeMsgpack(bytes, limits)
    } catch (error) {
      throw unknown('The session record cannot be decoded.', error)
    }
  }
  return {
    async identify(session, signal) {
      if (!sessionForm.test(session)) throw unknown('The request has no session id, or a malformed one.')
      const record = await read(session, signal)
      if (record === undefined) throw unknown('The session does not exist or has expired.')
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
  if (belongs === undefined)
    throw unknown('The guild of the session has no tenant; configure redis.tenants or redis.tenant.')
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
 * The principals among a gateway's users that may call a tool, as its catalog lists them. Undefined when every session
 * may, because every session holds each permission that the tool requires.
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

/** The same rule as in the pipeline: the same name, `prefix:*`, or `*`. */
function grants(held: string, needed: string): boolean {
  return held === needed || held === '*' || (held.endsWith(':*') && needed.startsWith(held.slice(0, -1)))
}

/** A user id is unique only within its platform, so each holder names both. */
function checkHolders(holders: Holders): void {
  for (const [permission, who] of Object.entries(holders)) {
    if (who === '*' || (Array.isArray(who) && who.every((one) => /^[^:]+:./.test(one)))) continue
    const issues = [{ path: `/holders/${permission}`, message: 'must be * or a list of users such as discord:1234' }]
    throw new ToolError('CONFIG_INVALID', `The holders of ${permission} ${issues[0]?.message}.`, {
      details: { issues },
    })
  }
}

/** Platforms use numeric user ids, and gateways send them as numbers or texts. */
function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : Number.isSafeInteger(value) ? String(value) : ''
}

/** A guild or channel may be absent, but not malformed. */
function placeOf(value: Json | undefined): string {
  const text = textOf(value)
  if (value === undefined || value === null || value === '' || idForm.test(text)) return text
  throw malformed()
}

function malformed(): ToolError {
  return unknown('The session record has no valid user_id and platform.')
}

function unknown(message: string, cause?: unknown): ToolError {
  return new ToolError('UNAUTHENTICATED', message, { cause })
}
