import type { Runtimes } from '@gantry/core/internal/runtimes/runtimes'
import type { OfferedRuntime } from '../protocol/documents.ts'

/** A host offers what it runs itself: to pass programs on to further hosts could go in a circle. */
const elsewhere: readonly string[] = ['remote', 'temporal']

/** Probes the runtimes of this host and finds out what each serves, by the rule of their selection. */
export async function findOffers(
  runtimes: Pick<Runtimes, 'list' | 'explain'>,
  signal: AbortSignal,
): Promise<readonly OfferedRuntime[]> {
  const infos = (await runtimes.list(signal)).filter(
    ({ isolation, kind }) => isolation !== 'none' && !elsewhere.includes(kind),
  )
  const languages = [...new Set(infos.flatMap((info) => info.languages))]
  const serving = async (
    program: Parameters<Runtimes['explain']>[0],
    confinement: Parameters<Runtimes['explain']>[1] = {},
  ): Promise<ReadonlySet<string>> => {
    const { runtimes: verdicts } = await runtimes.explain(program, { profile: 'dev', ...confinement }, signal)
    return new Set(verdicts.filter(({ verdict }) => verdict !== 'refused').map(({ kind }) => kind))
  }
  const commands = await serving({ kind: 'argv' })
  const strictCommands = await serving({ kind: 'argv' }, { profile: 'hardened' })
  const rows = await Promise.all(
    languages.map(async (language) => {
      const code = { kind: 'code', language } as const
      return {
        language,
        plain: await serving(code),
        strict: await serving(code, { profile: 'hardened' }),
        sessions: await serving({ ...code, session: true }),
        gateways: await serving({ ...code, gateway: true }),
        deterministic: await serving(code, { deterministic: { seed: 1, nowMs: 0 } }),
      }
    }),
  )
  return infos.flatMap((info): OfferedRuntime[] => {
    if (!info.available) return []
    const { kind, isolation, version, startMs, limits, attacks } = info
    const having = (way: 'plain' | 'sessions' | 'gateways' | 'deterministic'): readonly string[] =>
      rows.filter((row) => row[way].has(kind)).map(({ language }) => language)
    return [
      {
        kind,
        isolation,
        version,
        startMs,
        limits,
        attacks,
        commands: commands.has(kind),
        strict: strictCommands.has(kind) || rows.some(({ strict }) => strict.has(kind)),
        languages: having('plain'),
        sessions: having('sessions'),
        gateways: having('gateways'),
        deterministic: having('deterministic'),
      },
    ]
  })
}
