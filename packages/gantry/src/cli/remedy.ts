import { type CodeInfo, codes, type ErrorInfo } from '@gantry/contract'

/** What to do about an error, for a person: the table's advice where it fits; nothing where the message says it all. */
export function remedyOf({ code, stage, details = {} }: ErrorInfo): string | undefined {
  if (code === 'CANCELLED') return undefined
  // What a command line may not reach is no matter of the configuration; the message says what to do.
  if (code === 'EGRESS_DENIED' && stage === 'admit') return undefined
  // A service that cannot start because another one is there says so itself.
  if (code === 'SERVICE_UNAVAILABLE' && stage === 'define') return undefined
  // Only a command about quarantine is stale before there is a call.
  if (code === 'CATALOG_STALE' && stage === 'admit') return undefined
  if (code === 'INPUT_INVALID' && stage === 'admit') return 'gantry help explains the commands.'
  // Whoever asked cannot be given a permission to decide.
  if (code === 'DENIED' && details.own === true)
    return 'Somebody else who holds gantry:approve, or a role that `gantry approvals show` names, may decide.'
  const { remedy }: CodeInfo = codes[code]
  // The place of a mistake, or the file that cannot be read, is in the lines before; only a limit is left to point at.
  if (code === 'PAYLOAD_INVALID') {
    return Object.keys(details).some((key) => key !== 'issues' && key !== 'file') ? remedy : undefined
  }
  const [, detail] = /`details\.(\w+)`/.exec(remedy) ?? []
  if (detail === undefined || !isEmpty(details[detail])) return remedy
  return code === 'TOOL_NOT_FOUND' ? '`gantry tools` lists what there is.' : undefined
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0)
}
