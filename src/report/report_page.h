#ifndef CHARL_REPORT_REPORT_PAGE_H
#define CHARL_REPORT_REPORT_PAGE_H
/** report.html, embedded when charl is built. The data of a report take the place of "@DATA@". */
extern const char *const charl__report_page;

#endif
