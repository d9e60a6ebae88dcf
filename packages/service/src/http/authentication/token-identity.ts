import type { Identity, Json } from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { ClaimRules } from '../../config/authentication-settings.ts'

export type Claims = { readonly [claim: string]: Json | undefined }

/** What nobody sees, or takes for something else: also blank letters, and spaces but for single ones between words. */
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{DI}\u2800\u{1d159}]|(?! )\p{Z}|^ | {2}| $/u
const wordLength = /^.{1,200}$/su
const most = 500

/** Whether it can stand in a log line and a column, looks like what it is and like nothing else, and is not too long. */
export function isWord(text: string): boolean {
  return wordLength.test(text) && !unseen.test(text) && text === text.normalize('NFC')
}

/** Who a token is of; undefined when it does not say, or says what it may not. */
export function identityOf(claims: Claims, rules: ClaimRules): Identity | undefined {
  const principal = textOf(claimOf(claims, rules.claims.principal))
  const tenant = tenantOf(claims, rules)
  const roles = textsOf(claims, rules.claims.roles)
  const permissions = textsOf(claims, rules.claims.permissions)
  if (principal === undefined || tenant === undefined || roles === undefined || permissions === undefined) {
    return undefined
  }
  const grants = { principal, tenant, permissions: rules.grants }
  const granted = permissions.filter((permission) => holds(grants, permission))
  return { principal: `${rules.name}:${principal}`, tenant, permissions: granted, roles }
}

function tenantOf(claims: Claims, { claims: { tenant }, tenant: fixed, tenants }: ClaimRules): string | undefined {
  if (tenant === undefined) return fixed
  const said = textOf(claimOf(claims, tenant))
  // A star stands for all of them elsewhere, and is nobody's name.
  if (said === undefined || said === '*') return undefined
  return tenants === undefined || tenants.includes(said) ? said : undefined
}

/** A list, or a text with spaces between, as `scope` is; none when there is no such claim. */
function textsOf(claims: Claims, path: string | undefined): readonly string[] | undefined {
  const value = path === undefined ? undefined : claimOf(claims, path)
  if (value === undefined || value === null) return []
  const list = typeof value === 'string' ? value.split(' ').filter((one) => one !== '') : value
  if (!Array.isArray(list) || list.length > most) return undefined
  const texts = list.map(textOf)
  return texts.every((text) => text !== undefined) ? texts : undefined
}

function textOf(value: Json | undefined): string | undefined {
  return typeof value === 'string' && isWord(value) ? value : undefined
}

/** Claims may be named like addresses, so that only what begins with a slash is a pointer. */
function claimOf(claims: Claims, path: string): Json | undefined {
  if (!path.startsWith('/')) return Object.hasOwn(claims, path) ? claims[path] : undefined
  let value: Json | undefined = claims as Json
  for (const segment of path.slice(1).split('/')) {
    const key = segment.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Claims)[key]
  }
  return value
}
