const list = (text: string): readonly string[] => text.trim().split(/\s+/)

export const verbs = list(`
  get list create update delete search find fetch send post read write upload download copy move rename archive restore
  publish schedule cancel approve reject assign merge close open start stop pause resume sync import export validate
  convert translate summarize classify extract render compile deploy rollback scale monitor subscribe unsubscribe invite
  revoke grant rotate encrypt sign verify count compare tag pin lock unlock
`)

export const nouns = list(`
  user account order invoice payment refund customer contact lead deal ticket issue comment label branch commit pull
  release pipeline build job task project board sprint milestone document page folder file image video audio message
  channel thread meeting event calendar reminder email draft attachment template campaign segment audience form survey
  response report dashboard metric alert incident runbook service host container cluster node volume network subnet
  firewall certificate secret key token role permission policy group team organization workspace repository package
  dependency vulnerability scan backup snapshot database table row column index query view schema migration queue topic
  subscription webhook endpoint domain record zone cache session log trace span dataset model prompt embedding experiment
  feature flag rollout product variant price discount cart shipment warehouse inventory supplier contract quote lease
  vehicle route driver location map weather forecast flight hotel booking passenger seat menu recipe ingredient patient
  appointment prescription claim course lesson quiz grade student teacher article author citation song playlist album
`)

export const services = list(`
  github gitlab bitbucket jira linear asana trello notion confluence slack teams discord zoom gmail outlook calendar drive
  dropbox box salesforce hubspot zendesk intercom freshdesk stripe paypal square shopify magento quickbooks xero netsuite
  workday bamboo greenhouse lever aws azure gcp cloudflare fastly vercel netlify heroku docker kubernetes terraform
  ansible jenkins circleci datadog grafana prometheus sentry pagerduty opsgenie newrelic splunk elastic mongo postgres
  mysql redis kafka rabbit snowflake bigquery databricks airflow dbt looker tableau powerbi segment amplitude mixpanel
  mailchimp sendgrid twilio vonage openweather mapbox here uber lyft doordash airbnb expedia spotify youtube vimeo
`)

/** Common words first: a description draws the front ones most. */
export const fillers = list(`
  the a of to in and for with by from on as or that when an its all is given this each only if one are not more be
  returns name id data value optional existing new list current specified filter results matching details status using
  default available multiple fields time date based single entire request after before limit page key version public
  private active remote local recent latest full text content metadata owner type format options settings changes history
  access level priority size number total batch items selected related across within between per without unless also
  updates creates removes supports requires allows includes sorted ordered grouped paginated filtered cached asynchronous
  automatically immediately safely permanently temporarily manually optionally recursively
`)

const syllables = list('ba co du fi ga ho ju ka lo mi nu pe qui ra so ta vu wex yo za bri cle dro fla gri')

/** A made-up product name; real catalogs hold thousands of words that are used once or twice. */
export function rareWord(random: () => number): string {
  let word = ''
  for (let n = 0; n < 3; n += 1) word += syllables[Math.floor(random() * syllables.length)] ?? ''
  return word
}
