import { randomBytes } from 'node:crypto'
import { createRedactor, type Redactor } from '@gantry/core/internal/json/redact'
import type { Credential, CredentialLocation } from '@gantry/core/internal/runtimes/runtime'
import { type AllowedOrigin, names, parseAllow } from './allow.ts'
import type { Authority } from './authority.ts'

/** A credential in one sandbox. */
export interface Standing {
  readonly variable: string
  readonly placeholder: string
  /** The bytes of the secret in UTF-8, each as one character: what goes over a wire. */
  readonly secret: string
  readonly places: ReadonlySet<CredentialLocation>
  readonly origins: readonly AllowedOrigin[]
  /** Puts the placeholder back for the secret, in whatever form somebody sends that. */
  readonly redactor: Redactor
}

/** Gives a credential a placeholder that nobody can guess and that no other sandbox has. */
export function stand({ variable, value, hosts, in: places = ['header'] }: Credential): Standing {
  const placeholder = `gantry-placeholder-${randomBytes(16).toString('hex')}`
  const secret = Buffer.from(value()).toString('latin1')
  // Servers that take the bytes of a header for characters send those back in UTF-8.
  const values = [...new Set([secret, value(), Buffer.from(secret).toString('latin1')])]
  return {
    ...{ variable, placeholder, secret, places: new Set(places), origins: parseAllow(hosts) },
    redactor: createRedactor({ values, keys: false, mark: placeholder }),
  }
}

/** Those that may be told to an origin. */
export function standingFor(all: readonly Standing[], scheme: string, authority: Authority): readonly Standing[] {
  return all.filter(({ origins }) => names(origins, scheme, authority))
}
