import { figure, type Section } from './report.ts'
import { measureSubjects } from './subjects.ts'

const labels: { readonly [name: string]: readonly [label: string, target: string] } = {
  mixed: ['a decision, 1,000 mixed rules', '≤ 5'],
  'mixed, scanned': ['the same, one rule after the other', ''],
  personal: ['a decision, 1,000 rules about everything, each for one caller', '≤ 5'],
  'personal, scanned': ['the same, one rule after the other', ''],
  both: ['both policies at once, the strictest counting', ''],
  alike: ['a decision, 1,000 rules on the arguments of this very tool', ''],
  call: ['a whole call without a policy', ''],
  'call under rules': ['a whole call under the 1,000 mixed rules', ''],
}

/** What a decision costs when there are many rules. */
export async function policy(): Promise<Section> {
  const measured = await measureSubjects('policy-subjects.ts', Object.keys(labels), { rounds: 15 })
  const rows = measured.map((one) => {
    const [label, target] = labels[one.name] ?? [one.name, '']
    if ('failed' in one) return [`${label}: not measured, ${one.failed}`]
    return [label, figure(one.p50), target, figure(one.p5), figure(one.bytes)]
  })
  return { title: 'Policy', tables: [{ head: ['', 'p50 µs', 'target', 'p5 µs', 'bytes'], rows }], notes }
}

const notes = [
  'Requests differ in caller, tool and arguments from one decision to the next.',
  'No policy library is installed to stand beside it; the scan asks every rule in turn, as `rules` did before its index.',
  'Rules that are all about the same call are asked one by one: an index cannot tell them apart.',
]
