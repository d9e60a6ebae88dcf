import { hash, randomBytes, randomInt } from 'node:crypto'
import { type Identity, type Issue, type KeyView, type Paged, ToolError } from '@gantry/contract'
import { toolMatcher } from '@gantry/core/internal/ids/tool-pattern'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { PageQuery } from '../../storage/call-input.ts'
import type { KeyRecords, Verifier } from '../../storage/keys/api-keys.ts'
import { everyTenant, isOwn, refuseBeyond } from '../../storage/keys/key-grant.ts'
import { publicKeyOf } from './live-keys.ts'
import { isWord } from './token.ts'

/** A key that somebody asks for; the door has checked the types and sizes of its members. */
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
  /** Of a pair that signs, in base64url; the private half stays where it was made. */
  readonly publicKey?: string
}

export interface RotateInput {
  /** How long the old one stays good; a day when absent. */
  readonly overlapMs?: number
  /** As long as the old one was good for when absent. */
  readonly expiresMs?: number
  /** Of the new pair, for a key that signs. */
  readonly publicKey?: string
}

export interface RevokeInput {
  /** Also cancels the calls of its principal that nobody works on. */
  readonly cancelCalls?: boolean
}

/** A key that was made: its text, which nobody can be shown again, unless it signs and its owner has it. */
export interface MadeKey {
  readonly key: KeyView
  readonly text?: string
}

/**
 * Makes and ends keys, for those who hold `gantry:keys`, which the door has checked. Nobody can make, or by rotating get,
 * a key that may do more than he may himself; and nobody but one who holds `*` can make one, or by rotating get one, for the
 * principal of a key that somebody else made.
 * - Errors: DENIED, INPUT_INVALID with paths, NOT_FOUND also for keys of tenants that are not the caller's.
 */
export interface KeyControl {
  create(input: KeyInput, maker: Identity): Promise<MadeKey>
  list(query: PageQuery & { readonly tenant?: string }, maker: Identity): Promise<Paged<KeyView>>
  rotate(id: string, input: RotateInput, maker: Identity): Promise<MadeKey>
  /** Calls that were made with it go on, unless those of its principal that nobody works on yet are cancelled with it. */
  revoke(id: string, maker: Identity, options?: RevokeInput): Promise<KeyView>
}

const day = 24 * 3_600_000
const usualLifeMs = 90 * day
const usualOverlapMs = day
const mostText = 16_384
const letters = 'abcdefghijklmnopqrstuvwxyz0123456789'

/** `cancel` ends a call of a tenant, and notes who did it. */
export function createKeyControl(
  records: KeyRecords,
  cancel: (callId: string, tenant: string, by: Identity) => Promise<unknown>,
): KeyControl {
  const make = (publicKey: string | undefined): { id: string; verifier: Verifier; text?: string } => {
    const id = Array.from({ length: 12 }, () => letters[randomInt(letters.length)]).join('')
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
      // It is kept with every call.
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

/** Whether a key is only for whoever made the first one of its principal, or for a principal without any. */
function mustBeUnclaimed(identity: Identity, maker: Identity): boolean {
  return !isOwn(identity, maker) && !holds(maker, '*')
}

/** Whose keys somebody can reach. */
function reach(maker: Identity): string | undefined {
  return holds(maker, everyTenant) ? undefined : maker.tenant
}

function tooMuch(): ToolError {
  return new ToolError('INPUT_INVALID', `What a key may do must be said in ${mostText} characters.`, { stage: 'admit' })
}

/** As of tokens: somebody whose name has a character that nobody sees would look like somebody else. */
function checkWords({ name, principal, tenant, permissions, roles = [] }: Identity & { readonly name: string }): void {
  const words = [
    ...Object.entries({ name, principal, tenant }),
    ...permissions.map((text, index) => [`permissions/${index}`, text] as const),
    ...roles.map((text, index) => [`roles/${index}`, text] as const),
  ]
  const message =
    'must be 1 to 200 characters in the normal form NFC, none of which is a control character or such that is not seen, with single spaces between words at most'
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
