import { hash, randomBytes, randomInt } from 'node:crypto'
import { type Identity, type Issue, type KeyView, type Paged, ToolError } from '@gantry/contract'
import { toolMatcher } from '@gantry/core/internal/ids/tool-pattern'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import { everyTenant, isOwn, type KeyRecords, refuseBeyond, type Verifier } from '../../storage/keys/api-keys.ts'
import type { PageQuery } from '../../storage/page-cursor.ts'
import { publicKeyOf } from './live-keys.ts'
import { isWord } from './token.ts'

/** A request for a key; the route has checked the types and sizes of its members. */
export interface KeyInput {
  readonly name: string
  /** `key:` and the name when absent. */
  readonly principal?: string
  /** The maker's when absent. */
  readonly tenant?: string
  readonly permissions?: readonly string[]
  readonly roles?: readonly string[]
  /** Those of the maker when absent. */
  readonly tools?: readonly string[]
  /** 90 days when absent. */
  readonly expiresMs?: number
  /** The public key of a signing pair, in base64url; the private key never leaves its owner. */
  readonly publicKey?: string
}

export interface RotateInput {
  /** The time that the old key stays valid; a day when absent. */
  readonly overlapMs?: number
  /** The validity of the old key when absent. */
  readonly expiresMs?: number
  /** The new public key, for a signing key. */
  readonly publicKey?: string
}

export interface RevokeInput {
  /** Also cancels the calls of its principal that no worker has claimed. */
  readonly cancelCalls?: boolean
}

/** A new key. Its text is shown only here; a signing key has none, because its owner holds the private half. */
export interface MadeKey {
  readonly key: KeyView
  readonly text?: string
}

/**
 * Creates, rotates and revokes keys. The route has checked that the maker holds `gantry:keys`. A key, also a rotated one,
 * never has a permission that its maker lacks. Only a holder of `*` can create or rotate a key for a principal that has a
 * key of another maker.
 * - Errors: DENIED, INPUT_INVALID with paths, NOT_FOUND also for keys of tenants that are not the caller's.
 */
export interface KeyControl {
  create(input: KeyInput, maker: Identity): Promise<MadeKey>
  list(query: PageQuery & { readonly tenant?: string }, maker: Identity): Promise<Paged<KeyView>>
  rotate(id: string, input: RotateInput, maker: Identity): Promise<MadeKey>
  /** Calls that were made with it go on; `cancelCalls` cancels those of its principal that no worker has claimed. */
  revoke(id: string, maker: Identity, options?: RevokeInput): Promise<KeyView>
}

const day = 24 * 3_600_000
const usualLifeMs = 90 * day
const usualOverlapMs = day
const mostText = 16_384
const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789'

/** `cancel` cancels a call of a tenant, and writes the actor to the audit log. */
export function createKeyControl(
  records: KeyRecords,
  cancel: (callId: string, tenant: string, by: Identity) => Promise<unknown>,
): KeyControl {
  const make = (publicKey: string | undefined): { id: string; verifier: Verifier; text?: string } => {
    const id = Array.from({ length: 12 }, () => alphabet[randomInt(alphabet.length)]).join('')
    if (publicKey !== undefined) return { id, verifier: { publicKey: checkedKey(publicKey) } }
    const text = `gk_${id}_${randomBytes(32).toString('base64url')}`
    return { id, text, verifier: { digest: hash('sha256', text, 'base64url') } }
  }
  return {
    async create(input, maker) {
      const { name, tenant = maker.tenant, principal = `key:${name}`, permissions = [], roles = [] } = input
      const tools = input.tools ?? maker.tools
      const identity = { tenant, principal, permissions, roles, ...(tools === undefined ? {} : { tools }) }
      checkWords({ name, ...identity })
      if (tools !== undefined) checkPatterns(tools)
      // The identity is stored with every call.
      if (JSON.stringify(identity).length > mostText) throw tooMuch()
      refuseBeyond(identity, maker)
      const { text, ...made } = make(input.publicKey)
      const lifeMs = input.expiresMs ?? usualLifeMs
      const unclaimed = mustBeUnclaimed(identity, maker)
      const key = await records.add({ ...made, name, identity, lifeMs }, maker, { unclaimed })
      return { key, ...(text === undefined ? {} : { text }) }
    },
    async list({ tenant = '', ...query }, maker) {
      if (tenant === '' || tenant === maker.tenant) return records.list(query, maker.tenant)
      if (!holds(maker, everyTenant)) throw new ToolError('DENIED', `Keys of other tenants need ${everyTenant}.`)
      return records.list(query, tenant === '*' ? undefined : tenant)
    },
    async rotate(id, { overlapMs = usualOverlapMs, expiresMs, publicKey }, maker) {
      const { kind, name, expiresAt, createdAt, ...old } = await records.get(id, reach(maker))
      if ((kind === 'signing') !== (publicKey !== undefined)) {
        throw invalid('/publicKey', kind === 'signing' ? 'is needed: the key signs' : 'is not for a key that is sent')
      }
      const { tenant, principal, permissions, roles, tools } = old
      const identity = { tenant, principal, permissions, roles, ...(tools === undefined ? {} : { tools }) }
      refuseBeyond(identity, maker)
      const { text, ...made } = make(publicKey)
      const lifeMs = expiresMs ?? Date.parse(expiresAt) - Date.parse(createdAt)
      const unclaimed = mustBeUnclaimed(identity, maker)
      const key = await records.rotate(id, { ...made, name, identity, lifeMs }, overlapMs, maker, { unclaimed })
      return { key, ...(text === undefined ? {} : { text }) }
    },
    async revoke(id, maker, { cancelCalls = false } = {}) {
      const key = await records.revoke(id, reach(maker), maker)
      if (!cancelCalls) return key
      for (const callId of await records.pending(key.tenant, key.principal)) {
        await cancel(callId, key.tenant, maker)
      }
      return key
    },
  }
}

/** Whether the principal of the key must have no key of another maker. */
function mustBeUnclaimed(identity: Identity, maker: Identity): boolean {
  return !isOwn(identity, maker) && !holds(maker, '*')
}

/** The tenant whose keys the maker can manage; undefined for all tenants. */
function reach(maker: Identity): string | undefined {
  return holds(maker, everyTenant) ? undefined : maker.tenant
}

function tooMuch(): ToolError {
  return new ToolError(
    'INPUT_INVALID',
    `The permissions, roles and tools of a key must not exceed ${mostText} characters of JSON.`,
    { stage: 'admit' },
  )
}

/** As in tokens, invisible characters are refused: with one, a name would look like another name. */
function checkWords({ name, principal, tenant, permissions, roles = [] }: Identity & { readonly name: string }): void {
  const words = [
    ...Object.entries({ name, principal, tenant }),
    ...permissions.map((text, index) => [`permissions/${index}`, text] as const),
    ...roles.map((text, index) => [`roles/${index}`, text] as const),
  ]
  const message =
    'must be 1 to 200 characters in the normal form NFC, without control or invisible characters, and with at most single spaces between words'
  const issues = words.filter(([, text]) => !isWord(text)).map(([path]) => ({ path: `/${path}`, message }))
  if (issues[0] !== undefined) throw invalid(issues[0].path, message, issues)
}

function checkPatterns(tools: readonly string[]): void {
  const issues: Issue[] = []
  toolMatcher(tools, '/tools', issues)
  const [issue] = issues
  if (issue !== undefined) throw invalid(issue.path, issue.message, issues)
}

function checkedKey(text: string): string {
  try {
    publicKeyOf(text)
    return text
  } catch (cause) {
    throw invalid('/publicKey', 'must be an Ed25519 public key, its 32 bytes in base64url', undefined, cause)
  }
}

function invalid(path: string, message: string, issues: readonly Issue[] = [{ path, message }], cause?: unknown) {
  return new ToolError('INPUT_INVALID', `${path} ${message}.`, { details: { issues }, stage: 'admit', cause })
}
