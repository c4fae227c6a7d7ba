#ifndef CHARL_REPORT_REPORT_PAGE_H
#define CHARL_REPORT_REPORT_PAGE_H
/** report.html, embedded at build time. The data of a report replace "@DATA@". */
extern const char *const charl__report_page;

#endif
